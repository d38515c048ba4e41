import axios from "axios";
import axiosRetry, { exponentialDelay, isRetryableError, retryAfter } from "axios-retry";

const petstore = axios.create({
  baseURL: "{{ base_url }}",
  headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
});
axiosRetry(petstore, {
  retries: 5,
  retryDelay: (count, error) => exponentialDelay(count, error, 1000), // At least Retry-After.
  // Also retry POST, but do not wait for hours.
  retryCondition: (error) => isRetryableError(error) && retryAfter(error) <= 120_000,
  shouldResetTimeout: true, // Applies a timeout to each attempt, without the waits.
});

try {
  const [pet] = (await petstore.get("/pets?status=available&limit=1")).data;
  const headers = { "Idempotency-Key": crypto.randomUUID() };
  console.log((await petstore.post("/store/orders", { petId: pet.id }, { headers })).data);
} catch (error) {
  throw new Error(JSON.stringify(error.response?.data ?? error.message));
}
