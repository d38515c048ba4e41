// Loaded without `defer`, so that no click on a visible button is lost.
// Copy buttons: <button data-copy="ID of the text" data-status="ID of the live region">.
"use strict";

// The Clipboard API requires a secure context. execCommand works without one.
function copySelection(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = window.getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
  return document.execCommand("copy");
}

// A displayed key is not copied, but replaced by the name of a variable.
function getCopiedText(element) {
  const copied = element.cloneNode(true);
  for (const key of copied.querySelectorAll("[data-copied]")) key.textContent = key.dataset.copied;
  return copied.textContent;
}

document.addEventListener("copy", (event) => {
  const selection = window.getSelection();
  const selected = selection.rangeCount ? selection.getRangeAt(0).cloneContents() : null;
  if (!selected?.querySelector("[data-copied]")) return;
  event.clipboardData.setData("text/plain", getCopiedText(selected));
  event.preventDefault();
});

async function copy(element) {
  try {
    await navigator.clipboard.writeText(getCopiedText(element));
    return true;
  } catch {
    return copySelection(element);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const isCopied = await copy(document.getElementById(button.dataset.copy));
  const status = document.getElementById(button.dataset.status);
  status.textContent = "";  // Otherwise screen readers do not announce a second copy.
  requestAnimationFrame(() => {
    status.textContent = isCopied ? "Copied" : "Could not copy. The text is selected: press Ctrl+C.";
  });
});
