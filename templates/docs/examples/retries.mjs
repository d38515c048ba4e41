import { writeFileSync } from "node:fs";

const RETRYABLE = new Set([408, 429, 500, 502, 503, 504]);
const MAX_WAIT = 120; // Seconds. A longer wait means that the quota of the day is used up or the key is banned.
const headers = { Authorization: `Bearer ${process.env.PETSTORE_KEY}` };
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

// Makes all requests of a key wait after a Retry-After.
const gate = {
  opens: 0,
  close(seconds) {
    this.opens = Math.max(this.opens, Date.now() + seconds * 1000);
  },
  // Wait until the gate opens, or give up at once if that takes too long.
  async wait() {
    for (let left; (left = (this.opens - Date.now()) / 1000) > 0; ) {
      if (left > MAX_WAIT) throw new Error(`Retry after ${new Date(this.opens).toISOString()}.`);
      await sleep(left + Math.random());
    }
  },
};

// Retry a POST until it gets a response. The Idempotency-Key keeps it from being carried out twice.
async function sendOnce(url, body) {
  const options = {
    method: "POST",
    body: JSON.stringify(body),
    headers: {
      ...headers,
      "Content-Type": "application/json",
      "Idempotency-Key": crypto.randomUUID(), // All attempts have the same key.
    },
  };
  for (let attempt = 0; attempt < 5; attempt++) {
    await gate.wait();
    let response;
    try {
      response = await fetch(url, options);
    } catch {
      await sleep(2 ** attempt); // Without a response, it may have been carried out.
      continue;
    }
    const inUse = response.status === 409 && (await response.clone().json()).code === "idempotency_key_in_use";
    if (!RETRYABLE.has(response.status) && !inUse) return response;
    gate.close(Math.max(Number(response.headers.get("Retry-After") ?? 1), 2 ** attempt));
  }
  await gate.wait();
  return fetch(url, options);
}

const pets = await fetch("{{ base_url }}/pets?status=available&limit=1", { headers });
if (!pets.ok) throw new Error(await pets.text());
const [pet] = await pets.json();
if (!pet) throw new Error("There is no pet to order.");
const response = await sendOnce("{{ base_url }}/store/orders", { petId: pet.id });
if (!response.ok) throw new Error(await response.text());
const order = await response.json();
writeFileSync("order.json", JSON.stringify(order));
console.log(order);
