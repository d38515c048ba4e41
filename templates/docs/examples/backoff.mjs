const PARALLEL = 4; // Concurrent requests.
const LONGEST_WAIT = 120; // Seconds. A longer one means: the day's quota is used up, or the key is banned.
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

// The wait that all requests of a key share. A Retry-After closes the gate for all.
const gate = {
  opens: 0,
  close(seconds) {
    this.opens = Math.max(this.opens, Date.now() + seconds * 1000);
  },
  // Wait until it is open, or give up at once.
  async wait() {
    for (let left; (left = (this.opens - Date.now()) / 1000) > 0; ) {
      if (left > LONGEST_WAIT) throw new Error(`Retry after ${new Date(this.opens).toISOString()}.`);
      await sleep(left + Math.random());
    }
  },
};

// GET. After 429 or 503 wait at least as Retry-After says, longer each time, and retry.
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
const left = urls.entries(); // Each worker takes the next one.
async function work() {
  for (const [index, url] of left) names[index] = (await send(url)).map(({ name }) => name);
}
await Promise.all(Array.from({ length: PARALLEL }, work));
for (const some of names) console.log(some);
