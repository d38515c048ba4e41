// In a demo, the home page sends its first call with the displayed key, and displays the response.
"use strict";

async function send(output) {
  const response = await fetch(output.dataset.call, { headers: { Authorization: `Bearer ${output.dataset.key}` } });
  const data = await response.json();
  const body = Array.isArray(data)
    ? `[\n${data.map((pet) => `  ${JSON.stringify(pet)}`).join(",\n")}\n]`
    : JSON.stringify(data);
  const left = response.headers.get("X-RateLimit-Remaining");
  output.querySelector("code").textContent =
    `HTTP/1.1 ${response.status} ${response.statusText}\nX-RateLimit-Remaining: ${left}\n\n${body}`;
  output.hidden = false;
}

send(document.getElementById("answer"));
