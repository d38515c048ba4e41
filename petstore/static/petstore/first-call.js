// Sends the first call with a new key from the page that shows the key.
"use strict";

const call = document.getElementById("first-call");
const [send, outcome, output] = ["button", "[role=status]", "pre"].map((selector) => call.querySelector(selector));
call.hidden = false;

send.addEventListener("click", async () => {
  const key = document.getElementById("key-text").textContent;
  try {
    const response = await fetch(call.dataset.call, { headers: { Authorization: `Bearer ${key}` } });
    const data = await response.json().catch(() => null); // A proxy may send a page.
    outcome.textContent = `HTTP/1.1 ${response.status} ${response.statusText}`;
    output.firstElementChild.textContent = JSON.stringify(data, null, 2);
    output.hidden = false;
  } catch {
    outcome.textContent = "The service did not respond. Try again in a minute.";
  }
});
