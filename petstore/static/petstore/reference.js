// Filters the operations while one types, and follows links of the former reference, such as /docs#/pets/listPets.
"use strict";

const operations = [...document.querySelectorAll(".operations li")];

function filter(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of operations) {
    const text = `${item.textContent} ${item.querySelector("a").dataset.operation}`.toLowerCase();
    item.hidden = !words.every((word) => text.includes(word));
  }
  for (const group of document.querySelectorAll(".group")) {
    group.hidden = !group.querySelector("li:not([hidden])");
  }
  const count = operations.filter((item) => !item.hidden).length;
  document.getElementById("filter-status").textContent =
    words.length ? `${count} of ${operations.length} operations. Press Enter to search the guides too.` : "";
}

const search = document.querySelector(".filter input");
search.addEventListener("input", () => filter(search.value));
filter(search.value);  // Which the browser may have restored.

function followFormerLink() {
  const [, tag, operation] = /^#\/(\w+)(?:\/(\w+))?$/.exec(location.hash) ?? [];
  const link = operation && document.querySelector(`[data-operation="${operation}"]`);
  if (tag) location.replace(link?.href ?? `#${tag}`);
}

addEventListener("hashchange", followFormerLink);
followFormerLink();
