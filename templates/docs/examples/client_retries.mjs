import { Client, ConnectionFailedError, RateLimitError } from "petstore-client";

const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
const [pet] = await client.pets.list({ status: "available", limit: 1 });
if (!pet) throw new Error("There is no pet to order.");
try {
  const order = await client.orders.place(pet.id); // Retries have the same Idempotency-Key.
  console.log(order.id, order.status);
} catch (error) {
  if (error instanceof RateLimitError) throw new Error(`Retry after ${error.retryAt.toISOString()}.`);
  if (error instanceof ConnectionFailedError) throw new Error(`It may have been placed: ${error.message}`);
  throw new Error(`It was not placed: ${error.message}`);
}
