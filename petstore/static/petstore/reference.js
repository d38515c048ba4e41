// Swagger UI over the OpenAPI document. The page's policy forbids scripts in the page, so it starts here.
"use strict";

// Try it out must reach the service that serves the page; the policy lets it reach no other.
function ownServer(server) {
  return { ...server, url: location.origin + new URL(server.url, location.href).pathname };
}

// Left out: what the page says itself, and the choice of a server, of which there is one. An operation's name
// is no link, for it stands in a button; opening it still puts its address into the location.
const fitIn = ({ React }) => ({
  wrapComponents: {
    InfoContainer: () => () => null,
    ServersContainer: () => () => null,
    DeepLink: () => ({ text }) => React.createElement("span", null, text),
  },
});

async function start(element) {
  const response = await fetch(element.dataset.document);
  if (!response.ok) throw new Error(`The document answers ${response.status}.`);
  const spec = await response.json();
  spec.servers = [ownServer(spec.servers[0])];
  SwaggerUIBundle({
    ...JSON.parse(element.dataset.settings),
    spec,
    domNode: element,
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [fitIn],
    layout: "BaseLayout",
  });
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

// Swagger UI gives its lists of examples no name, which a screen reader would read.
function nameLists() {
  for (const list of document.querySelectorAll(".examples-select-element:not([aria-label])")) {
    list.setAttribute("aria-label", "Examples");
  }
}

const element = document.getElementById("reference");
new MutationObserver(nameLists).observe(element, { childList: true, subtree: true });
start(element).catch((error) => {
  element.textContent = `The reference could not be loaded. Reload the page to try again. (${error.message})`;
});
