/* Submits a dropdown filter on change. */
"use strict";

window.addEventListener("load", () => {
  const form = document.getElementById("filter-form");
  if (form) django.jQuery(form).on("change", "select", () => form.requestSubmit()); // select2 only triggers jQuery events.
});
