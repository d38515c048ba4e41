/* Applies the chosen theme before the page is displayed, and offers the choice in the footer. The back office stores
 * its theme under the same name. Without this script, pages have the theme of the system.
 */
"use strict";

(() => {
  const NAME = "adminTheme";

  function getChosen() {
    try {
      const theme = JSON.parse(localStorage.getItem(NAME));
      return ["light", "dark"].includes(theme) ? theme : "auto";
    } catch {
      return "auto"; // Storage is disabled, or another script wrote to it.
    }
  }

  function apply(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }

  apply(getChosen());
  addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    select.value = getChosen();
    select.parentElement.hidden = false;
    select.addEventListener("change", () => {
      apply(select.value);
      try {
        localStorage.setItem(NAME, JSON.stringify(select.value));
      } catch {
        // Then the choice lasts for this page.
      }
    });
  });
})();
