/* Applies a filter that is a box as soon as something is chosen, as the filters that are links do. */
"use strict";

window.addEventListener("load", () => {
  const form = document.getElementById("filter-form");
  if (form) django.jQuery(form).on("change", "select", () => form.requestSubmit()); // select2 tells jQuery alone.
});
