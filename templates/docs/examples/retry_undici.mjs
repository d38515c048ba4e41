import { Agent, RetryAgent, request } from "undici";

const dispatcher = new RetryAgent(new Agent(), {
  statusCodes: [408, 429, 500, 502, 503, 504],
  // The default retries after at most 30 seconds, and never retries a POST.
  retry: (error, { state }, callback) => {
    const seconds = Number(error.headers?.["retry-after"] ?? 2 ** state.counter);
    const giveUp = seconds > 120 || state.counter > 5;
    giveUp ? callback(error) : setTimeout(callback, seconds * 1000, null);
  },
});
const headers = { Authorization: `Bearer ${process.env.PETSTORE_KEY}`, "Content-Type": "application/json" };

async function petstore(path, options = {}) {
  const response = await request("{{ base_url }}" + path, {
    ...options, dispatcher, headers: { ...headers, ...options.headers },
  });
  if (response.statusCode >= 400) throw new Error(await response.body.text());
  return response.body.json();
}

try {
  const [pet] = await petstore("/pets?status=available&limit=1");
  const once = { "Idempotency-Key": crypto.randomUUID() };
  const body = JSON.stringify({ petId: pet.id });
  console.log(await petstore("/store/orders", { method: "POST", body, headers: once }));
} catch (error) {
  const seconds = error.headers?.["retry-after"];
  throw seconds ? new Error(`Retry in ${seconds} seconds.`) : error;
}
