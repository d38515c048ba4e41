import { writeFileSync } from "node:fs";

const AGAIN = new Set([408, 429, 500, 502, 503, 504]);
const LONGEST_WAIT = 120; // Seconds. A longer one means: the day's quota is used up, or the key is banned.
const headers = { Authorization: `Bearer ${process.env.PETSTORE_KEY}` };
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

// POST until there is an answer. However often it is sent, it is done once.
async function sendOnce(url, body) {
  const options = {
    method: "POST",
    body: JSON.stringify(body),
    headers: {
      ...headers,
      "Content-Type": "application/json",
      "Idempotency-Key": crypto.randomUUID(), // One for all tries.
    },
  };
  for (let attempt = 0; attempt < 5; attempt++) {
    let wait = 2 ** attempt;
    try {
      const response = await fetch(url, options);
      const inUse = response.status === 409 && (await response.clone().json()).code === "idempotency_key_in_use";
      wait = Math.max(wait, Number(response.headers.get("Retry-After") ?? 1));
      if (wait > LONGEST_WAIT || (!AGAIN.has(response.status) && !inUse)) return response;
    } catch {
      // No answer, and no telling whether it was done.
    }
    await sleep(wait);
  }
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
