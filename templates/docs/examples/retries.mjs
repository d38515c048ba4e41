const AGAIN = new Set([429, 500, 502, 503, 504]);
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

// POST until there is an answer. However often it is sent, it is done once.
async function sendOnce(url, body) {
  const options = {
    method: "POST",
    body: JSON.stringify(body),
    headers: {
      Authorization: `Bearer ${process.env.PETSTORE_KEY}`,
      "Content-Type": "application/json",
      "Idempotency-Key": crypto.randomUUID(), // One for all tries.
    },
  };
  for (let attempt = 0; attempt < 5; attempt++) {
    let wait = 2 ** attempt;
    try {
      const response = await fetch(url, options);
      const inUse = response.status === 409 && (await response.clone().json()).code === "idempotency_key_in_use";
      if (!AGAIN.has(response.status) && !inUse) return response;
      wait = Math.max(wait, Number(response.headers.get("Retry-After") ?? 1));
    } catch {
      // No answer, and no telling whether it was done.
    }
    await sleep(wait);
  }
  return fetch(url, options);
}

const response = await sendOnce("{{ base_url }}/pets", { name: "Biscuit", categoryId: 1 });
if (!response.ok) throw new Error(await response.text());
console.log(await response.json());
