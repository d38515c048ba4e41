/* Submits a filter as soon as its dropdown changes. */
"use strict";

window.addEventListener("load", () => {
  const form = document.getElementById("filter-form");
  if (form) django.jQuery(form).on("change", "select", () => form.requestSubmit()); // select2 triggers only jQuery events.
});
