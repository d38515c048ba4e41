/* Keyboard access to Unfold's clickable elements that are not buttons. The panels that they open (filters, menus) get
 * the focus, and close on Escape or when the focus leaves them.
 */
"use strict";

(() => {
  const CLICKABLE = "[x-on\\:click]:not(a[href], button, input, select, textarea, label, summary)";
  const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, [role=button]";
  const OPENING = /^(\w+) = (true|!\1)$/;
  const LISTS = ".select2-container"; // Appended to the body.
  const LABELS = { dock_to_right: "Menu" }; // Of icons without text.

  const isShown = (element) => element.getClientRects().length > 0;

  /* The panel that the element opens, if a click outside closes it; else null. */
  function panelOf(element) {
    const [, name] = OPENING.exec(element.getAttribute("x-on:click")) ?? [];
    if (!name) return null;
    const scope = element.closest(`[x-data*="${name}"]`) ?? document;
    const panel = scope.querySelector(`[x-show="${name}"]`);
    const closing = `[x-on\\:click="${name} = false"]`;
    return panel && (panel.hasAttribute("x-on:click.outside") || panel.querySelector(closing)) ? panel : null;
  }

  function letOpen(opener, panel) {
    let byKeyboard = false;

    function close() {
      if (!isShown(panel)) return;
      (panel.querySelector('[x-on\\:click$=" = false"]') ?? opener).click();
    }

    opener.addEventListener("keydown", () => (byKeyboard = true));
    opener.addEventListener("pointerdown", () => (byKeyboard = false));
    opener.setAttribute("aria-expanded", String(isShown(panel)));
    new MutationObserver(() => {
      const opened = isShown(panel);
      const changed = opener.getAttribute("aria-expanded") !== String(opened);
      opener.setAttribute("aria-expanded", String(opened));
      if (!changed || !byKeyboard) return;
      if (opened) [...panel.querySelectorAll(CONTROLS)].find(isShown)?.focus();
      else setTimeout(leadBack); // After select2, which moves the focus when it closes.
    }).observe(panel, { attributes: true });

    function leadBack() {
      const active = document.activeElement;
      if (active === document.body || panel.contains(active) || active.closest(LISTS)) opener.focus();
    }

    for (const element of [opener, panel]) {
      element.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || !isShown(panel)) return;
        close();
        opener.focus();
      });
    }
    panel.addEventListener("focusout", ({ relatedTarget: next }) => {
      const within = !next || next === opener || panel.contains(next) || next.closest(LISTS);
      if (!within) close();
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const element of document.querySelectorAll(CLICKABLE)) {
      const text = element.textContent.trim();
      if (!text || element.querySelector("a, button, input")) continue; // No text: a backdrop.
      element.setAttribute("role", "button");
      element.setAttribute("tabindex", "0");
      if (LABELS[text]) element.setAttribute("aria-label", LABELS[text]);
    }
    for (const opener of document.querySelectorAll("[x-on\\:click]")) {
      const panel = panelOf(opener);
      if (panel) letOpen(opener, panel);
    }
    document.querySelector("#content [autofocus]")?.focus(); // Unfold builds the page too late for the browser.
  });

  /* The mobile menu has no x-show panel: Escape clicks its close button. */
  document.addEventListener("keydown", ({ key }) => {
    const [closer, opener] = document.querySelectorAll('[x-on\\:click^="sidebarMobileOpen"]');
    if (key !== "Escape" || !opener || !isShown(closer) || document.querySelector("dialog[open]")) return;
    closer.click();
    opener.focus();
  });

  document.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.matches?.(CLICKABLE)) {
      event.preventDefault();
      event.target.click();
    }
  });
})();
