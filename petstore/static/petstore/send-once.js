/* Lets a second click on a button that sends a form do nothing while the first is being answered: its own answer,
 * "done already", would take the place of the one that shows the new key.
 */
"use strict";

(() => {
  const PATIENCE = 10_000; // Milliseconds after which somebody may try again.
  let sent = new WeakMap(); // When each form was sent.

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
    if (form.matches("[data-downloads-file]")) return; // The page stays, and may ask again at once.
    const { timeStamp: now } = event;
    if (now - (sent.get(form) ?? -PATIENCE) < PATIENCE) event.preventDefault();
    else sent.set(form, now);
  });

  addEventListener("pageshow", ({ persisted }) => {
    if (persisted) sent = new WeakMap(); // Somebody came back to this page.
  });
})();
