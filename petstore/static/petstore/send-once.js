/* Ignores a second submit of a form while the first is in progress: its response, "done already", would replace
 * the page that shows the new key.
 */
"use strict";

(() => {
  const TIMEOUT = 10_000; // Milliseconds after which the form may be submitted again.
  let sent = new WeakMap(); // Form: time of submission.

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
    if (form.matches("[data-downloads-file]")) return; // The page stays open and may be submitted again at once.
    const { timeStamp: now } = event;
    if (now - (sent.get(form) ?? -TIMEOUT) < TIMEOUT) event.preventDefault();
    else sent.set(form, now);
  });

  addEventListener("pageshow", ({ persisted }) => {
    if (persisted) sent = new WeakMap(); // Restored from the back/forward cache.
  });
})();
