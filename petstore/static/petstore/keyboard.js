/* Lets the keyboard press what unfold made for the mouse alone: elements with a click but no button. */
"use strict";

(() => {
  const CLICKABLE = "[x-on\\:click]:not(a[href], button, input, select, textarea, label, summary)";
  const WORDS = { dock_to_right: "Menu" }; // Of icons that stand alone.

  document.addEventListener("DOMContentLoaded", () => {
    for (const element of document.querySelectorAll(CLICKABLE)) {
      if (element.querySelector("a, button, input")) continue;
      element.setAttribute("role", "button");
      element.setAttribute("tabindex", "0");
      const word = WORDS[element.textContent.trim()];
      if (word) element.setAttribute("aria-label", word);
    }
  });

  document.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.matches?.(CLICKABLE)) {
      event.preventDefault();
      event.target.click();
    }
  });
})();
