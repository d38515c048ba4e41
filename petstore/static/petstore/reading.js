// Tabs for examples with a stored choice of language, copy buttons, links to headings, and the shortcut / for the
// search. Without this script, the examples in all languages are listed one below the other.
"use strict";

const LANGUAGE = "language";

function remembered() {
  try {
    return localStorage.getItem(LANGUAGE);
  } catch {
    return null;  // Storage is disabled.
  }
}

function remember(language) {
  try {
    localStorage.setItem(LANGUAGE, language);
  } catch {
    // Then the choice lasts for this page.
  }
}

// A group without the language shows its first tab.
function show(language) {
  for (const group of document.querySelectorAll(".examples")) {
    const tabs = [...group.querySelectorAll("[role=tab]")];
    const chosen = tabs.find((tab) => tab.textContent === language) ?? tabs[0];
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", tab === chosen);
      tab.tabIndex = tab === chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
    }
  }
}

function choose(tab) {
  const before = tab.getBoundingClientRect().top;
  remember(tab.textContent);
  show(tab.textContent);
  tab.focus();
  scrollBy(0, tab.getBoundingClientRect().top - before);  // Keep the tab in place when content above changes.
}

// Keyboard support as in the WAI-ARIA Authoring Practices.
function onKey(event) {
  const tabs = [...event.currentTarget.children];
  const at = tabs.indexOf(event.target);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  choose(tabs[(to + tabs.length) % tabs.length]);
}

function newElement(name, properties, attributes = {}) {
  const made = Object.assign(document.createElement(name), properties);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}

function makeTabs(group) {
  const figures = [...group.querySelectorAll(".example")];
  const list = newElement("div", { className: "tabs" }, { role: "tablist", "aria-label": "Language" });
  for (const figure of figures) {
    const caption = figure.querySelector("figcaption");
    const shown = { type: "button", textContent: caption.textContent, id: `${figure.id}-tab` };
    const tab = newElement("button", shown, { role: "tab", "aria-controls": figure.id });
    tab.addEventListener("click", () => choose(tab));
    list.append(tab);
    caption.remove();
    figure.setAttribute("role", "tabpanel");
    figure.setAttribute("aria-labelledby", tab.id);
  }
  list.addEventListener("keydown", onKey);
  group.prepend(list);
}

// See copy.js.
function addCopyButton(code) {
  const status = newElement("span", { id: `${code.id}-status` }, { role: "status" });
  const button = newElement("button", { type: "button", textContent: "Copy" }, {
    "data-copy": code.id,
    "data-status": status.id,
  });
  const row = newElement("div", { className: "copy" });
  row.append(status, button);
  code.parentElement.before(row);
}

function addAnchor(heading) {
  const label = `Link to: ${heading.textContent}`;
  const link = { className: "anchor", textContent: "#", href: `#${heading.id}` };
  heading.append(newElement("a", link, { "aria-label": label }));
}

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
  event.preventDefault();
  document.querySelector(".search input").select();
});

// site.css displays the menu on wide screens even while it is closed. Open, it can be scrolled with the keyboard.
const menu = document.querySelector(".menu");
if (menu && matchMedia("(min-width: 56rem)").matches) {
  menu.closest("details").open = true;
  const current = menu.querySelector("[aria-current]");
  if (current) menu.scrollTop = current.offsetTop - menu.clientHeight / 2;
}
for (const heading of document.querySelectorAll("main :is(h2, h3)[id]")) addAnchor(heading);
for (const group of document.querySelectorAll(".examples")) makeTabs(group);
for (const code of document.querySelectorAll("pre > code[id]")) addCopyButton(code);
show(remembered());
