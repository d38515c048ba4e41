const CONCURRENCY = 4;
const MAX_WAIT = 120; // Seconds. A longer wait means that the quota of the day is used up or the key is banned.
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

// Send a GET. Retry after 429 and 503, with longer and longer waits of at least Retry-After.
async function send(url) {
  let response;
  for (let attempt = 0; attempt < 6; attempt++) {
    await gate.wait();
    response = await fetch(url, { headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` } });
    if (response.status !== 429 && response.status !== 503) break;
    gate.close(Math.max(Number(response.headers.get("Retry-After") ?? 1), 2 ** attempt));
  }
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

const urls = Array.from({ length: 10 }, (_, index) => `{{ base_url }}/pets?limit=3&categoryId=${index + 1}`);
const names = [];
const left = urls.entries(); // Shared by the workers.
async function work() {
  for (const [index, url] of left) names[index] = (await send(url)).map(({ name }) => name);
}
await Promise.all(Array.from({ length: CONCURRENCY }, work));
for (const some of names) console.log(some);
