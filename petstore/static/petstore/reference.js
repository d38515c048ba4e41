// Starts Swagger UI; the CSP forbids inline scripts.
"use strict";

// "Try it out" must call the service that serves the page; the CSP allows no other.
function ownServer(server) {
  return { ...server, url: location.origin + new URL(server.url, location.href).pathname };
}

// Swagger UI would prefill optional parameters with their examples: one Idempotency-Key for all, one ETag.
function withoutExamples(spec) {
  for (const path of Object.values(spec.paths)) {
    for (const { parameters = [] } of Object.values(path)) {
      for (const parameter of parameters.filter(({ required }) => !required)) {
        delete parameter.example;
        delete parameter.examples;
      }
    }
  }
  return spec;
}

// The page contains a sample for each operation; move it beside its operation while that is open.
const samples = document.getElementById("samples");
const Sample = ({ React, operation }) => {
  const place = React.useCallback((box) => {
    (box ?? samples).append(document.querySelector(`[data-operation="${operation}"]`));
  }, [operation]);
  return React.createElement("div", { className: "sample", ref: place });
};

// Leaves out the title, which the page has, and the choice among servers, as there is one. An operation's name is no
// link, since it is inside a button; opening it still updates the location.
const fitIn = ({ React }) => ({
  components: {
    // BaseLayout without its <main>, since the page has one.
    InPage: ({ getComponent }) => {
      const part = (name) => React.createElement(getComponent(name, name !== "SvgAssets"));
      const box = (className, ...parts) => React.createElement("div", { className }, ...parts);
      return box(
        "swagger-ui",
        part("SvgAssets"),
        part("errors"),
        box("scheme-container", box("schemes wrapper", part("AuthorizeBtnContainer"))),
        React.createElement("h2", null, "Operations"),
        box("wrapper", part("operations")),
        box("wrapper", part("Models")),
      );
    },
  },
  wrapComponents: {
    InfoContainer: () => () => null,
    ServersContainer: () => () => null,
    DeepLink: () => ({ text }) => React.createElement("span", null, text),
    // Collapsed: they are nearly the same for each response.
    headers: (Headers) => (props) =>
      props.headers?.size
        ? React.createElement("details", null, React.createElement("summary", null, "Headers"), React.createElement(Headers, props))
        : null,
    parameters: (Parameters) => (props) => [
      React.createElement(Parameters, { ...props, key: "parameters" }),
      React.createElement(Sample, { React, operation: props.operation.get("operationId"), key: "sample" }),
    ],
  },
});

async function start(element) {
  const response = await fetch(element.dataset.document);
  if (!response.ok) throw new Error(`Status ${response.status}.`);
  const spec = withoutExamples(await response.json());
  spec.servers = [ownServer(spec.servers[0])];
  SwaggerUIBundle({
    ...JSON.parse(element.dataset.settings),
    spec,
    domNode: element,
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [fitIn],
    layout: "InPage",
  });
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

// Accessible names for controls that have none in Swagger UI.
const NAMES = [
  [".examples-select-element", () => "Examples"],
  [".parameters-col_description select", (list) => list.closest("tr").dataset.paramName],
  [".body-param textarea", () => "Request body"],
  [".close-modal", () => "Close"],
];

function addNames() {
  for (const [selector, name] of NAMES) {
    for (const control of document.querySelectorAll(selector)) {
      if (!control.hasAttribute("aria-label")) control.setAttribute("aria-label", name(control));
    }
  }
  // Keyboard users must be able to scroll long examples.
  for (const example of document.querySelectorAll(".microlight:not([tabindex])")) example.tabIndex = 0;
}

const element = document.getElementById("reference");
new MutationObserver(addNames).observe(element, { childList: true, subtree: true });
start(element).catch((error) => {
  element.textContent = `The reference could not be loaded. Reload the page to try again. (${error.message})`;
});
