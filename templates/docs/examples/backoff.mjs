const LONGEST_WAIT = 120; // Seconds. A longer one means: the day's quota is used up, or the key is banned.

// Send; after 429 or 503 wait at least as Retry-After says, each time longer, and send again.
async function send(url, options) {
  for (let attempt = 0; attempt < 5; attempt++) {
    const response = await fetch(url, options);
    if (response.status !== 429 && response.status !== 503) return response;
    const seconds = Number(response.headers.get("Retry-After") ?? 1);
    const wait = Math.max(seconds, 2 ** attempt) + Math.random();
    if (wait > LONGEST_WAIT) return response;
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  }
  return fetch(url, options);
}

const response = await send("{{ base_url }}/pets?limit=3", {
  headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
});
if (!response.ok) throw new Error(await response.text());
console.log(await response.json());
