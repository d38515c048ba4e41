import got from "got";

const petstore = got.extend({
  prefixUrl: "{{ base_url }}",
  headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
  retry: {
    limit: 5,
    methods: ["GET", "POST", "DELETE"],
    statusCodes: [408, 429, 500, 502, 503, 504],
    maxRetryAfter: 120_000, // In milliseconds. Gives up at once if the wait is longer.
  },
});

try {
  const [pet] = await petstore.get("pets?status=available&limit=1").json();
  const headers = { "Idempotency-Key": crypto.randomUUID() };
  console.log(await petstore.post("store/orders", { json: { petId: pet.id }, headers }).json());
} catch (error) {
  throw new Error(error.response?.body ?? error.message);
}
