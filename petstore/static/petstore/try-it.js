// "Try it": sends the request of the form to the service that serves the page, and displays the response.
"use strict";

const KEY = "key";
const CREATED = "created ";  // Prefix of the path of a collection.
const SHOWN_HEADERS = [
  "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id", "Retry-After", "Location", "Link",
  "ETag", "Idempotent-Replayed", "Deprecation", "Sunset",
];

const section = document.querySelector(".try-it");
const form = section.querySelector("form");
const keyInput = document.getElementById("try-key");
const body = document.getElementById("try-body");
const status = section.querySelector(".answer");

// The key and new ids are stored until the tab is closed, for the pages of the other operations.
function store(name, value) {
  try {
    if (value) sessionStorage.setItem(name, value);
    else sessionStorage.removeItem(name);
  } catch {
    // Storage is disabled: the key lasts for this page.
  }
}

function restore(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

// For example, the page of GET /store/orders/{orderId} offers the order that POST /store/orders has placed.
function storeCreated(location) {
  const [, path, id] = /^(.*)\/(\w+)$/.exec(new URL(location).pathname) ?? [];
  if (path) store(CREATED + path, id);
}

function offerCreated() {
  const input = form.querySelector("[data-in=path]");
  const [, path] = /^(.*)\/\{\w+\}$/.exec(decodeURI(new URL(form.dataset.url).pathname)) ?? [];
  const id = path && restore(CREATED + path);
  if (!id) return;
  input.value = id;
  const note = Object.assign(document.createElement("span"), { className: "prints", id: "try-created" });
  note.textContent = "You created this one in this tab.";
  input.setAttribute("aria-describedby", note.id);
  input.after(note);
}

// The Content-Security-Policy allows no other origin.
function buildUrl(fields) {
  const { pathname } = new URL(form.dataset.url);
  const query = new URLSearchParams();
  let path = decodeURI(pathname);
  for (const { name, value, dataset } of fields) {
    if (dataset.in === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (dataset.in === "query") query.set(name, value);
  }
  return new URL(path + (query.size ? `?${query}` : ""), location.origin).href;
}

function buildRequest() {
  const fields = [...form.querySelectorAll("[data-in]")].filter(({ value }) => value);
  const headers = fields.filter(({ dataset }) => dataset.in === "header").map(({ name, value }) => [name, value]);
  return { url: buildUrl(fields), method: form.dataset.method, headers, body: body?.value };
}

// How the languages quote. The others quote like JSON.
const quoteSingle = (text) => `'${text.replaceAll(/[\\']/g, "\\$&")}'`;
const QUOTES = { sh: (text) => `'${text.replaceAll("'", "'\\''")}'`, php: quoteSingle, rb: quoteSingle };

// As petstore/site/samples.py does, but with the values of the form.
function fillIn(suffix, template, { url, method, headers, body }) {
  const quote = QUOTES[suffix] ?? JSON.stringify;
  const values = { url, method, body, content: body ?? "" };
  const lines = template.trimEnd().split("\n").flatMap((line) => {
    if (line.includes("Idempotency-Key") || (!body && /\{body\}|Content-Type/.test(line))) return [];
    if (!/\{(name|header)\}/.test(line)) return [[line, values]];
    return headers.map(([name, value]) => [line, { ...values, name, value, header: `${name}: ${value}` }]);
  });
  const fill = ([line, values]) => line.replaceAll(/\{(\w+)\}/g, (placeholder, name) => {
    if (name === "METHOD") return method;
    if (name === "Method") return method[0] + method.slice(1).toLowerCase();
    return name in values ? quote(values[name]) : placeholder;
  });
  return lines.map(fill).join("\n").replace(/[\s\\]+$/, "");
}

function displayRequest(request) {
  for (const code of section.querySelectorAll("[data-template]")) {
    code.textContent = fillIn(code.id.split(".")[1], code.dataset.template, request);
  }
  section.querySelector(".request").hidden = false;
}

// Indents JSON as text: JSON.parse would round numbers beyond 2^53.
function indent(json) {
  let depth = 0;
  const newLine = () => `\n${"  ".repeat(depth)}`;
  return json.replace(/"(?:\\.|[^"\\])*"|\{\s*\}|\[\s*\]|[{}[\],:]|\s+/g, (token) => {
    if (/^\s/.test(token)) return "";
    if (token === "{" || token === "[") {
      depth += 1;
      return token + newLine();
    }
    if (token === "}" || token === "]") {
      depth -= 1;
      return newLine() + token;
    }
    if (token === ",") return token + newLine();
    return token === ":" ? ": " : token;
  });
}

function getErrorCode(text) {
  try {
    return JSON.parse(text).code;
  } catch {
    return undefined;  // Of a proxy, for example.
  }
}

function displayHeaders(headers) {
  const list = section.querySelector(".response dl");
  list.replaceChildren();
  for (const name of SHOWN_HEADERS.filter((name) => headers.has(name))) {
    const [term, value] = ["dt", "dd"].map((tag) => document.createElement(tag));
    [term.textContent, value.textContent] = [name, headers.get(name)];
    list.append(term, value);
  }
}

function displayAdvice(code) {
  const link = section.querySelector(".advice a");
  link.parentElement.hidden = !code;
  link.hash = code;
  link.textContent = `What to do about ${code}`;
}

async function display(response) {
  const text = await response.text();
  displayHeaders(response.headers);
  displayAdvice(response.ok ? undefined : getErrorCode(text));
  const code = document.getElementById("response.json");
  const isJson = response.headers.get("Content-Type")?.includes("json");
  code.textContent = text ? (isJson ? indent(text) : text) : "(no body)";
  section.querySelector(".response").hidden = false;
  status.textContent = `${response.status} ${response.statusText}`;
  if (response.status === 201 && response.headers.has("Location")) storeCreated(response.headers.get("Location"));
}

function moveToOutcome() {
  status.focus({ preventScroll: true });
  status.scrollIntoView({ block: "start" });
}

async function send() {
  section.querySelector(".response").hidden = true;
  status.textContent = "Sending…";
  const { url, ...options } = buildRequest();
  displayRequest({ url, ...options });
  if (body) options.headers.push(["Content-Type", body.dataset.type]);
  const key = keyInput.value.trim();
  store(KEY, key === keyInput.defaultValue ? "" : key);
  if (key) options.headers.push(["Authorization", `Bearer ${key}`]);
  let request;
  try {
    request = new Request(url, { ...options, cache: "no-store", credentials: "omit" });
  } catch {
    status.textContent = "Not sent: the key or a header contains an invalid character. Correct it.";
    return;
  }
  try {
    await display(await fetch(request));
  } catch {
    status.textContent = "No response: the service can't be reached. Check your connection, then try again.";
  }
}

let isSending = false;
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (isSending) return;
  isSending = true;
  await send();
  moveToOutcome();
  isSending = false;
});

section.addEventListener("click", ({ target }) => {
  if (!target.dataset.generate) return;
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  document.getElementById(target.dataset.generate).value =
    [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
});

keyInput.value = restore(KEY) ?? keyInput.defaultValue;
offerCreated();
section.hidden = document.querySelector(".jump").hidden = false;
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("main details")) details.open = true;
});
