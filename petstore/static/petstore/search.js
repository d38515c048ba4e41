// Shows the first results of the search in the page header while one types.
"use strict";

const MIN_LENGTH = 2;
const PAUSE = 200; // Milliseconds without a key before the search.
const MAX_HITS = 7;

const form = document.querySelector(".top .search");
const input = form.querySelector("input");
const hits = document.createElement("div");
const status = document.createElement("p");
hits.className = "hits";
hits.hidden = true;
status.setAttribute("role", "status");
hits.append(status, document.createElement("ul"));
input.nextElementSibling.after(hits);  // Of the hint to press /.

let timer;
let request;

function close() {
  clearTimeout(timer);
  request?.abort();
  hits.hidden = true;
}

function display(page) {
  const found = [...page.querySelectorAll(".findings a")].slice(0, MAX_HITS);
  const total = page.querySelector("main > .kind")?.textContent;
  status.textContent = total ?? "No results.";
  hits.lastChild.replaceChildren(...found.map((link) => {
    const item = document.createElement("li");
    item.append(link, " ", link.nextElementSibling ?? "");
    return item;
  }));
  hits.hidden = false;
}

async function search() {
  request?.abort();
  request = new AbortController();
  try {
    const url = `${form.action}?${new URLSearchParams({ q: input.value })}`;
    const response = await fetch(url, { signal: request.signal });
    if (response.ok) display(new DOMParser().parseFromString(await response.text(), "text/html"));
  } catch {
    // Outdated, or offline. The button still searches.
  }
}

input.addEventListener("input", () => {
  clearTimeout(timer);
  if (input.value.trim().length < MIN_LENGTH) close();
  else timer = setTimeout(search, PAUSE);
});

form.addEventListener("keydown", (event) => {
  if (hits.hidden) return;
  const stops = [input, ...hits.querySelectorAll("a")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const at = stops.indexOf(event.target);
  if (event.key === "Escape") close();
  if (event.key !== "Escape" && (!step || at < 0)) return;
  event.preventDefault();
  stops[step ? (at + step + stops.length) % stops.length : 0].focus();
});

form.addEventListener("submit", close);
form.addEventListener("focusout", ({ relatedTarget }) => {
  if (!form.contains(relatedTarget)) close();
});
