/* The command palette. Ctrl+K opens it, typing searches, Enter follows the first result, and the arrow keys move
 * between results. Terms are sent by POST and not stored.
 */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const [form, list, status] = ["form", "ul", "[role=status]"].map((selector) => dialog.querySelector(selector));
  const input = form.elements.s;
  const openers = [...document.querySelectorAll(".palette-opener")];
  const DEBOUNCE = 150; // Milliseconds.
  const FAILED = "The search failed. Try again or reload the page.";
  let previousFocus;
  let timer;
  let latestSearch = 0; // Responses to earlier searches are discarded.
  let searching = Promise.resolve();

  function show(items, message) {
    const hadFocus = list.contains(document.activeElement);
    list.replaceChildren(...items);
    if (hadFocus) (list.querySelector("a") ?? input).focus();
    status.textContent = message;
  }

  async function search() {
    const thisSearch = ++latestSearch;
    try {
      const response = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      if (!response.ok || response.redirected) throw new Error(FAILED); // A redirect leads to the sign-in.
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (thisSearch === latestSearch) show(page.querySelectorAll("li"), page.querySelector("p").textContent);
    } catch {
      if (thisSearch === latestSearch) show([], FAILED);
    }
  }

  function searchNow() {
    clearTimeout(timer);
    timer = undefined;
    stripSecret(input);
    searching = search();
  }

  function open() {
    previousFocus = document.activeElement;
    dialog.showModal();
    searchNow();
  }

  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    latestSearch++;
    form.reset();
    show([], "");
    // The browser restores the focus only if an element had it.
    if (previousFocus === document.body) openers.find((opener) => opener.checkVisibility())?.focus();
  });

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(searchNow, DEBOUNCE);
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (timer) searchNow();
    await searching;
    list.querySelector("a")?.click();
  });

  dialog.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const index = links.indexOf(document.activeElement);
    if (event.key === "Escape") dialog.close();
    else if (event.key === "ArrowDown") (links[index + 1] ?? links[index])?.focus();
    else if (event.key === "ArrowUp") (links[index - 1] ?? input).focus();
    else {
      if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) input.focus();
      return;
    }
    event.preventDefault();
  });

  dialog.addEventListener("click", (event) => {
    const isBackdrop = event.target === dialog;
    if (isBackdrop || event.target.closest(".palette-close, a")) dialog.close();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });

  openers.forEach((opener) => opener.addEventListener("click", open));
});
