/* Removes the secret of a key pasted into a search field, since browser histories and logs store URLs. */
"use strict";

function withoutSecret(input) {
  const pasted = /psk_(?:live|test)_([0-9A-Za-z]{0,14})/.exec(input.value);
  if (pasted) input.value = pasted[1];
}

document.addEventListener("input", ({ target, inputType }) => {
  if (target.type === "search" && inputType?.startsWith("insertFrom")) withoutSecret(target); // Pasted or dropped.
}, true);

document.addEventListener("submit", (event) => {
  if (event.target.method !== "get") return;
  event.target.querySelectorAll("input[type=text], input[type=search]").forEach(withoutSecret);
}, true);
