/* Ignores a second submission of a form while the first is in progress. Otherwise, its response ("done already")
 * would replace the page that shows the new key.
 */
"use strict";

(() => {
  const TIMEOUT = 10_000; // Milliseconds after which the form may be submitted again.
  let submittedAt = new WeakMap(); // Times by form.

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
    if (form.matches("[data-downloads-file]")) return; // The page stays open, so the form may be submitted again.
    const { timeStamp: now } = event;
    if (now - (submittedAt.get(form) ?? -TIMEOUT) < TIMEOUT) event.preventDefault();
    else submittedAt.set(form, now);
  });

  addEventListener("pageshow", ({ persisted }) => {
    if (persisted) submittedAt = new WeakMap(); // Restored from the back/forward cache.
  });
})();
