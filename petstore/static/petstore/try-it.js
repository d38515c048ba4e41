// "Try it": sends the request of the form to the service that serves the page, and displays the response.
"use strict";

const KEY = "key";
const SHOWN_HEADERS = [
  "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id", "Retry-After", "Location", "Link",
  "ETag", "Idempotent-Replayed", "Deprecation", "Sunset",
];

const section = document.querySelector(".try-it");
const form = section.querySelector("form");
const keyInput = document.getElementById("try-key");
const body = document.getElementById("try-body");
const status = section.querySelector(".answer");

// The key is stored until the tab is closed, for the pages of the other operations.
function storeKey(key) {
  try {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Storage is disabled: the key lasts for this page.
  }
}

function restoreKey() {
  try {
    keyInput.value = sessionStorage.getItem(KEY) ?? keyInput.defaultValue;
  } catch {
    // As above.
  }
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
  if (body) headers.push(["Content-Type", body.dataset.type]);
  return { url: buildUrl(fields), method: form.dataset.method, headers, body: body?.value };
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function formatCurl({ url, method, headers, body }) {
  const option = method === "GET" ? "" : `-X ${method} `;
  const parts = [`curl -i ${option}${quote(url)}`, '-H "Authorization: Bearer $PETSTORE_KEY"'];
  parts.push(...headers.map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`));
  if (body) parts.push(`-d ${quote(body)}`);
  return parts.join(" \\\n  ");
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
}

async function send() {
  section.querySelector(".response").hidden = true;
  status.textContent = "Sending…";
  const { url, ...options } = buildRequest();
  document.getElementById("request.sh").textContent = formatCurl({ url, ...options });
  section.querySelector(".request").hidden = false;
  const key = keyInput.value.trim();
  storeKey(key === keyInput.defaultValue ? "" : key);
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
  isSending = false;
});

section.addEventListener("click", ({ target }) => {
  if (!target.dataset.generate) return;
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  document.getElementById(target.dataset.generate).value =
    [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
});

restoreKey();
section.hidden = document.querySelector(".jump").hidden = false;
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("main details")) details.open = true;
});
