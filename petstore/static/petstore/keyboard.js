/* Lets the keyboard press what unfold made for the mouse alone: elements with a click but no button. What one of
 * them opens (filters, menus) gets the focus, and Escape or leaving it closes it again.
 */
"use strict";

(() => {
  const CLICKABLE = "[x-on\\:click]:not(a[href], button, input, select, textarea, label, summary)";
  const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, [role=button]";
  const OPENING = /^(\w+) = (true|!\1)$/;
  const LISTS = ".select2-container"; // They hang below the body, whatever box they belong to.
  const WORDS = { dock_to_right: "Menu" }; // Of icons that stand alone.

  const isShown = (element) => element.getClientRects().length > 0;

  /* What a click on the element opens, if a click beside that closes it; else null. */
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
      else setTimeout(leadBack); // After select2, which moves the focus when its list closes.
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
      if (!text || element.querySelector("a, button, input")) continue; // Without text: what lies behind a panel.
      element.setAttribute("role", "button");
      element.setAttribute("tabindex", "0");
      if (WORDS[text]) element.setAttribute("aria-label", WORDS[text]);
    }
    for (const opener of document.querySelectorAll("[x-on\\:click]")) {
      const panel = panelOf(opener);
      if (panel) letOpen(opener, panel);
    }
    document.querySelector("#content [autofocus]")?.focus(); // Browsers give up while unfold makes up the page.
  });

  /* The menu of a narrow screen has no panel that shows: Escape presses its own cross. */
  document.addEventListener("keydown", ({ key }) => {
    const [cross, opener] = document.querySelectorAll('[x-on\\:click^="sidebarMobileOpen"]');
    if (key !== "Escape" || !opener || !isShown(cross) || document.querySelector("dialog[open]")) return;
    cross.click();
    opener.focus();
  });

  document.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.matches?.(CLICKABLE)) {
      event.preventDefault();
      event.target.click();
    }
  });
})();
