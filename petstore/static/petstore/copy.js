// Copy buttons: <button data-copy="ID of the text" data-said="ID of the live region">.
"use strict";

// The Clipboard API needs a secure context; execCommand works without.
function copySelected(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = window.getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
  return document.execCommand("copy");
}

async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    return copySelected(element);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const done = await copy(document.getElementById(button.dataset.copy));
  const said = document.getElementById(button.dataset.said);
  said.textContent = "";  // Otherwise screen readers do not announce a second copy.
  requestAnimationFrame(() => {
    said.textContent = done ? "Copied" : "Could not copy. The text is selected: press Ctrl+C.";
  });
});
