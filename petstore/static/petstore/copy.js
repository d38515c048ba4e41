// Buttons that copy a text: <button data-copy="id of the text" data-said="id of the live region">.
"use strict";

// Without a secure connection there is no clipboard to write to, but a selection can be copied.
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
  said.textContent = "";  // So that a second copy is announced as well.
  requestAnimationFrame(() => {
    said.textContent = done ? "Copied" : "Not copied. The text is selected: press Ctrl+C.";
  });
});
