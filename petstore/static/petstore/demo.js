// In a demo, the home page sends its first call with the key that it shows, and shows the answer.
"use strict";

async function send(shown) {
  const response = await fetch(shown.dataset.call, { headers: { Authorization: `Bearer ${shown.dataset.key}` } });
  const answer = await response.json();
  const body = Array.isArray(answer)
    ? `[\n${answer.map((pet) => `  ${JSON.stringify(pet)}`).join(",\n")}\n]`
    : JSON.stringify(answer);
  const left = response.headers.get("X-RateLimit-Remaining");
  shown.querySelector("code").textContent =
    `HTTP/1.1 ${response.status} ${response.statusText}\nX-RateLimit-Remaining: ${left}\n\n${body}`;
  shown.hidden = false;
}

send(document.getElementById("answer"));
