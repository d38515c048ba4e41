/* Gives select2 and SimpleBar the accessible names that they lack, and capitalizes the column names on narrow screens. */
"use strict";

(() => {
  const SCROLLED = { "#nav-sidebar-apps": "Pages", "#changelist-filter [data-simplebar]": "Filters" };
  const SELECTION = ".select2-selection:not([aria-label])";

  function setLabel(selection) {
    const id = selection.closest(".select2-container")?.previousElementSibling?.id;
    const label = id && document.querySelector(`label[for="${CSS.escape(id)}"]`);
    if (!label) return;
    for (const part of [selection, ...selection.querySelectorAll("[role=textbox]")]) {
      part.setAttribute("aria-label", label.textContent.trim());
      part.removeAttribute("aria-labelledby");
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const [selector, label] of Object.entries(SCROLLED)) {
      document.querySelector(selector)?.setAttribute("data-simplebar-aria-label", label);
    }
    for (const { classList, dataset, textContent } of document.querySelectorAll("#result_list [data-label]")) {
      dataset.label = dataset.label.charAt(0).toUpperCase() + dataset.label.slice(1);
      classList.toggle("empty", textContent.trim() === "-"); // Narrow screens hide it.
    }
  });

  // select2 appears on load and with each inline row.
  new MutationObserver(() => document.querySelectorAll(SELECTION).forEach(setLabel)).observe(document, {
    childList: true,
    subtree: true,
  });
})();
