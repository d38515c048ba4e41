/* The command palette. Ctrl+K opens it, typing searches, Enter follows the first result, arrow keys move. Terms are
 * sent by POST and stored nowhere.
 */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const [form, list, status] = ["form", "ul", "[role=status]"].map((one) => dialog.querySelector(one));
  const input = form.elements.s;
  const openers = [...document.querySelectorAll(".palette-opener")];
  const PAUSE = 150; // Debounce, in milliseconds.
  const FAILED = "The search failed. Try again or reload the page.";
  let before; // The element to return the focus to.
  let timer;
  let last = 0; // Sequence of the latest search; earlier responses are discarded.
  let searching = Promise.resolve();

  function show(items, message) {
    list.replaceChildren(...items);
    status.textContent = message;
  }

  async function search() {
    const number = ++last;
    try {
      const response = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      if (!response.ok || response.redirected) throw new Error(FAILED); // A redirect leads to the sign-in.
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (number === last) show(page.querySelectorAll("li"), page.querySelector("p").textContent);
    } catch {
      if (number === last) show([], FAILED);
    }
  }

  function searchNow() {
    clearTimeout(timer);
    timer = undefined;
    withoutSecret(input);
    searching = search();
  }

  function open() {
    before = document.activeElement;
    dialog.showModal();
    searchNow();
  }

  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    last++;
    form.reset();
    show([], "");
    // The browser restores the focus unless no element had it.
    if (before === document.body) openers.find((opener) => opener.checkVisibility())?.focus();
  });

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(searchNow, PAUSE);
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (timer) searchNow();
    await searching;
    list.querySelector("a")?.click();
  });

  dialog.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "Escape") dialog.close();
    else if (event.key === "ArrowDown") (links[at + 1] ?? links[at])?.focus();
    else if (event.key === "ArrowUp") (links[at - 1] ?? input).focus();
    else {
      if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) input.focus();
      return;
    }
    event.preventDefault();
  });

  dialog.addEventListener("click", (event) => {
    const beside = event.target === dialog;
    if (beside || event.target.closest(".palette-close, a")) dialog.close();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });

  openers.forEach((opener) => opener.addEventListener("click", open));
});
