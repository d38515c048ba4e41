// Swagger UI over the OpenAPI document. The page's policy forbids scripts in the page, so it starts here.
"use strict";

// Try it out must reach the service that serves the page; the policy lets it reach no other.
function ownServer(server) {
  return { ...server, url: location.origin + new URL(server.url, location.href).pathname };
}

// Swagger UI would send an example that nobody chose: one Idempotency-Key for all, one ETag.
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

// The page has samples of all operations. One is beside its operation while that is open.
const samples = document.getElementById("samples");
const Sample = ({ React, operation }) => {
  const place = React.useCallback((box) => {
    (box ?? samples).append(document.querySelector(`[data-operation="${operation}"]`));
  }, [operation]);
  return React.createElement("div", { className: "sample", ref: place });
};

// Left out: what the page says itself, and the choice of a server, of which there is one. An operation's name
// is no link, for it stands in a button; opening it still puts its address into the location.
const fitIn = ({ React }) => ({
  components: {
    // As BaseLayout, whose <main> would stand in this page's.
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
    // They are many, and nearly the same for each answer.
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
  if (!response.ok) throw new Error(`The document answers ${response.status}.`);
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

// Controls that Swagger UI leaves without a name, and the name that a screen reader shall read.
const NAMES = [
  [".examples-select-element", () => "Examples"],
  [".parameters-col_description select", (list) => list.closest("tr").dataset.paramName],
  [".body-param textarea", () => "Body of the request"],
  [".close-modal", () => "Close"],
];

function mend() {
  for (const [selector, name] of NAMES) {
    for (const control of document.querySelectorAll(selector)) {
      if (!control.hasAttribute("aria-label")) control.setAttribute("aria-label", name(control));
    }
  }
  // A long example scrolls: the keyboard must reach it to do so.
  for (const example of document.querySelectorAll(".microlight:not([tabindex])")) example.tabIndex = 0;
}

const element = document.getElementById("reference");
new MutationObserver(mend).observe(element, { childList: true, subtree: true });
start(element).catch((error) => {
  element.textContent = `The reference could not be loaded. Reload the page to try again. (${error.message})`;
});
