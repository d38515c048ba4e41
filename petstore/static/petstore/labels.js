/* Gives each select2 box the words of its label: select2 itself leaves it without a name. In front of the values of
 * a list on a narrow screen, the first word of their name has a capital.
 */
"use strict";

(() => {
  const SELECTION = ".select2-selection:not([aria-label])";

  function name(selection) {
    const id = selection.closest(".select2-container")?.previousElementSibling?.id;
    const label = id && document.querySelector(`label[for="${CSS.escape(id)}"]`);
    if (!label) return;
    for (const part of [selection, ...selection.querySelectorAll("[role=textbox]")]) {
      part.setAttribute("aria-label", label.textContent.trim());
      part.removeAttribute("aria-labelledby");
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const { dataset } of document.querySelectorAll("#result_list [data-label]")) {
      dataset.label = dataset.label.charAt(0).toUpperCase() + dataset.label.slice(1);
    }
  });

  // Boxes come when the page is ready, and with each row that is added.
  new MutationObserver(() => document.querySelectorAll(SELECTION).forEach(name)).observe(document, {
    childList: true,
    subtree: true,
  });
})();
