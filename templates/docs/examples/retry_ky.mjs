import ky from "ky";

const petstore = ky.extend({
  prefixUrl: "{{ base_url }}",
  headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
  retry: {
    limit: 5,
    methods: ["get", "post", "delete"],
    // Give up at once on a wait of hours. With maxRetryAfter, ky would retry too early.
    shouldRetry: ({ error }) => (error.response?.headers.get("Retry-After") > 120 ? false : undefined),
  },
});

try {
  const [pet] = await petstore.get("pets?status=available&limit=1").json();
  const headers = { "Idempotency-Key": crypto.randomUUID() };
  console.log(await petstore.post("store/orders", { json: { petId: pet.id }, headers }).json());
} catch (error) {
  throw new Error((await error.response?.text()) ?? error.message);
}
