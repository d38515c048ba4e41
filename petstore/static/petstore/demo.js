// In a demo, the home page sends its first call with the displayed key, and explains the response.
"use strict";

const LIMITS = {
  rate_limit_exceeded: "The demo key has used up its requests for this minute.",
  daily_quota_exceeded: "The demo key has used up its requests for today.",
  api_key_banned: "The demo key is banned for a while, because a client ignored 429.",
};
const SHORT = 120; // Seconds.

function formatWait(response) {
  const seconds = Number(response.headers.get("Retry-After"));
  if (seconds <= SHORT) return seconds ? `Reload the page in ${seconds} second${seconds > 1 ? "s" : ""}.` : "Reload the page in a minute.";
  const end = new Date(Date.now() + seconds * 1000);
  return `Reload the page after ${end.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })}.`;
}

function explain(response, data) {
  if (response.ok) return "This page has just sent this request with the demo key. The response:";
  if (response.status === 401)
    return `The demo key no longer works. Stop the demo and run "make run" again to create another key.`;
  const limit = LIMITS[data?.code];
  if (limit) return `${limit} ${formatWait(response)} A key of your own has limits of its own.`;
  if (response.status < 500 && data?.message) return `The service rejected the demo key: ${data.message}`;
  return `The service can't serve this request at the moment. ${formatWait(response)}`;
}

function format(response, data) {
  const names = ["X-RateLimit-Remaining", "Retry-After"].filter((name) => response.headers.has(name));
  const headers = names.map((name) => `\n${name}: ${response.headers.get(name)}`).join("");
  const body = Array.isArray(data)
    ? `[\n${data.map((pet) => `  ${JSON.stringify(pet)}`).join(",\n")}\n]`
    : JSON.stringify(data, null, 2);
  return `HTTP/1.1 ${response.status} ${response.statusText}${headers}\n\n${body}`;
}

async function send(answer) {
  const text = answer.querySelector("p");
  const output = answer.querySelector("pre");
  try {
    const response = await fetch(answer.dataset.call, { headers: { Authorization: `Bearer ${answer.dataset.key}` } });
    const data = await response.json().catch(() => null); // A proxy may send a page.
    text.textContent = explain(response, data);
    output.firstElementChild.textContent = format(response, data);
    output.hidden = false;
  } catch {
    text.textContent = "The service did not respond. Check that it is running, then reload the page.";
  }
}

send(document.getElementById("answer"));
