/* Lets a second click on a button that sends a form do nothing while the first is being answered: its own answer,
 * "done already", would take the place of the one that shows the new key.
 */
"use strict";

(() => {
  const PATIENCE = 10_000; // Milliseconds after which somebody may try again.
  const GIVING_FILES = "[data-gives-file], #changelist-form"; // The page stays, and is used again.
  const sent = new WeakSet();

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.matches(GIVING_FILES) || form.getAttribute("method") !== "post") return;
    if (sent.has(form)) {
      event.preventDefault();
      return;
    }
    sent.add(form);
    setTimeout(() => sent.delete(form), PATIENCE);
    addEventListener("pageshow", () => sent.delete(form), { once: true }); // Back to this page.
  });
})();
