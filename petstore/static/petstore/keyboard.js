/* Makes Unfold's clickable elements accessible by keyboard, although they are not buttons. The panels that they open
 * (filters, menus) get the focus. They close on Escape and when the focus leaves them.
 */
"use strict";

(() => {
  const CLICKABLE = "[x-on\\:click]:not(a[href], button, input, select, textarea, label, summary)";
  const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, [role=button]";
  const OPENING = /^(\w+) = (true|!\1)$/;
  const LISTS = ".select2-container"; // Appended to the body.
  const LABELS = { // Of controls that are only an icon, by its name.
    close: "Close the menu", dock_to_right: "Menu", more_horiz: "Actions", more_vert: "Related record",
    computer: "Theme", dark_mode: "Theme", light_mode: "Theme",
  };

  const isVisible = (element) => element.getClientRects().length > 0;

  /* Returns the panel that the element opens, or null if the panel can't be closed again. */
  function getPanel(element) {
    const [, name] = OPENING.exec(element.getAttribute("x-on:click")) ?? [];
    if (!name) return null;
    const scope = element.closest(`[x-data*="${name}"]`) ?? document;
    const panel = scope.querySelector(`[x-show="${name}"]`);
    const closing = `[x-on\\:click="${name} = false"]`;
    return panel && (panel.hasAttribute("x-on:click.outside") || panel.querySelector(closing)) ? panel : null;
  }

  function connect(opener, panel) {
    let byKeyboard = false;

    function close() {
      if (!isVisible(panel)) return;
      (panel.querySelector('[x-on\\:click$=" = false"]') ?? opener).click();
    }

    opener.addEventListener("keydown", () => (byKeyboard = true));
    opener.addEventListener("pointerdown", () => (byKeyboard = false));
    opener.setAttribute("aria-expanded", String(isVisible(panel)));
    new MutationObserver(() => {
      const isOpen = isVisible(panel);
      const hasChanged = opener.getAttribute("aria-expanded") !== String(isOpen);
      opener.setAttribute("aria-expanded", String(isOpen));
      if (!hasChanged || !byKeyboard) return;
      if (isOpen) [...panel.querySelectorAll(CONTROLS)].find(isVisible)?.focus();
      else setTimeout(returnFocus); // Runs after select2, which moves the focus when it closes.
    }).observe(panel, { attributes: true });

    function returnFocus() {
      if (isVisible(panel)) return; // It was opened again.
      const active = document.activeElement;
      if (active === document.body || panel.contains(active) || active.closest(LISTS)) opener.focus();
    }

    for (const element of [opener, panel]) {
      element.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || !isVisible(panel)) return;
        close();
        opener.focus();
      });
    }
    panel.addEventListener("focusout", ({ relatedTarget: next }) => {
      const staysInside = !next || next === opener || panel.contains(next) || next.closest(LISTS);
      if (!staysInside) close();
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const element of document.querySelectorAll(CLICKABLE)) {
      const text = element.textContent.trim();
      if (!text || element.querySelector("a, button, input")) continue; // An element without text is a backdrop.
      element.setAttribute("role", "button");
      element.setAttribute("tabindex", "0");
    }
    for (const opener of document.querySelectorAll("[x-on\\:click]")) {
      const label = LABELS[opener.textContent.trim()];
      if (label) opener.setAttribute("aria-label", label);
      const panel = getPanel(opener);
      if (panel) connect(opener, panel);
    }
    document.querySelector("#content [autofocus]")?.focus(); // Unfold builds the page too late for autofocus.
  });

  /* Escape closes the mobile menu, which has no x-show panel, by clicking its close button. */
  document.addEventListener("keydown", ({ key }) => {
    const [closer, opener] = document.querySelectorAll('[x-on\\:click^="sidebarMobileOpen"]');
    if (key !== "Escape" || !opener || !isVisible(closer) || document.querySelector("dialog[open]")) return;
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
