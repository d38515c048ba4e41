/* Removes the secret of a key pasted into a search field, because browser histories and logs store URLs. */
"use strict";

function stripSecret(input) {
  const pastedKey = /psk_(?:live|test)_([0-9A-Za-z]{0,14})/.exec(input.value);
  if (pastedKey) input.value = pastedKey[1];
}

document.addEventListener("input", ({ target, inputType }) => {
  if (target.type === "search" && inputType?.startsWith("insertFrom")) stripSecret(target); // Pasted or dropped.
}, true);

document.addEventListener("submit", (event) => {
  if (event.target.method !== "get") return;
  event.target.querySelectorAll("input[type=text], input[type=search]").forEach(stripSecret);
}, true);
