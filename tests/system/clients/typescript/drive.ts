// Drives the service through the client that is generated from its OpenAPI document.
// Arguments: base URL, API key, and a category's id. Prints what it found as JSON.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

type Pet = components["schemas"]["Pet"];
type PetStatus = components["schemas"]["PetStatus"];
type NewPet = components["schemas"]["NewPet"];
type NewOrder = components["schemas"]["NewOrder"];
type OrderStatus = components["schemas"]["OrderStatus"];

const [, , baseUrl = "", key = "", categoryId = ""] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });
const called = new Set<string>();
client.use({
  onRequest({ request }) {
    const path = new URL(request.url).pathname.replace(/^\/v1/, "").replace(/\/-?[0-9]+$/, "/{id}");
    called.add(`${request.method} ${path}`);
  },
});

function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

function nextCursor(response: Response): string | undefined {
  const next = /<([^>]*)>; rel="next"/.exec(response.headers.get("Link") ?? "")?.[1];
  return next === undefined ? undefined : (new URL(next).searchParams.get("cursor") ?? undefined);
}

async function hasCategory(id: number): Promise<boolean> {
  const { data } = await client.GET("/categories", { params: { query: { limit: 100 } } });
  check(data !== undefined, "The categories are not listed.");
  return data.some((category) => category.id === id && category.name.length > 0);
}

async function* all(status: PetStatus): AsyncGenerator<Pet> {
  let cursor: string | undefined;
  do {
    const query = cursor === undefined ? { status, limit: 100 } : { status, limit: 100, cursor };
    const { data, error, response } = await client.GET("/pets", { params: { query } });
    check(data !== undefined, `A page was rejected: ${JSON.stringify(error)}`);
    yield* data;
    cursor = nextCursor(response);
  } while (cursor !== undefined);
}

async function count(status: PetStatus): Promise<number> {
  let found = 0;
  let last = 0;
  for await (const pet of all(status)) {
    check(pet.status === status, `Pet ${pet.id} is ${pet.status}, not ${status}.`);
    check(pet.id > last, `Pet ${pet.id} comes after ${last}.`);
    last = pet.id;
    found += 1;
  }
  return found;
}

async function createAndFetch(): Promise<number> {
  const body: NewPet = { name: "Typed Terrier", categoryId: Number(categoryId), status: "available" };
  const { data: made, response } = await client.POST("/pets", { body });
  check(response.status === 201 && made !== undefined, `Not created: ${response.status}`);
  check(response.headers.get("Location") === `${baseUrl}/pets/${made.id}`, "Location names another pet.");
  const { data: found } = await client.GET("/pets/{petId}", { params: { path: { petId: made.id } } });
  check(found !== undefined, "The new pet is not found.");
  check(found.name === body.name && found.status === body.status, "The new pet has changed.");
  const { data: batch } = await client.POST("/pets/batch", { body: { pets: [body, body] } });
  check(batch?.length === 2 && batch.every(({ name }) => name === body.name), "The batch was not created.");
  return made.id;
}

async function statusOf(orderId: number): Promise<OrderStatus> {
  const { data } = await client.GET("/store/orders/{orderId}", { params: { path: { orderId } } });
  check(data !== undefined && data.id === orderId, "The order is not found.");
  return data.status;
}

async function placedOrders(): Promise<number[]> {
  const { data } = await client.GET("/store/orders", { params: { query: { status: "placed", limit: 100 } } });
  check(data !== undefined, "The orders are not listed.");
  return data.map(({ id }) => id);
}

async function orderAndCancel(petId: number): Promise<number> {
  const body: NewOrder = { petId };
  const params = { header: { "Idempotency-Key": `order-${petId}` } };
  const { data: order, response } = await client.POST("/store/orders", { body, params });
  check(response.status === 201 && order !== undefined, `Not placed: ${response.status}`);
  check(order.petId === petId && order.quantity === 1 && order.status === "placed", "The order is another.");
  const shipDate: string | null = order.shipDate;
  check(shipDate === null && !order.complete, "The order is shipped already.");
  check(response.headers.get("Location") === `${baseUrl}/store/orders/${order.id}`, "Location names another.");
  const again = await client.POST("/store/orders", { body, params });
  check(again.response.headers.get("Idempotent-Replayed") === "true", "The retry is no replay.");
  check(again.data?.id === order.id, "The retry placed another order.");
  const { error: taken } = await client.POST("/store/orders", { body });
  check(taken?.code === "pet_not_available", "The pet was sold twice.");
  check((await placedOrders()).includes(order.id), "The order is not listed.");
  check((await statusOf(order.id)) === "placed", "The order has changed.");
  const cancelled = await client.DELETE("/store/orders/{orderId}", { params: { path: { orderId: order.id } } });
  check(cancelled.response.status === 204, `Not cancelled: ${cancelled.response.status}`);
  check((await statusOf(order.id)) === "cancelled", "The order is not cancelled.");
  check(!(await placedOrders()).includes(order.id), "The cancelled order is listed.");
  return order.id;
}

async function follow(petId: number): Promise<void> {
  let cursor: string | undefined;
  let last = 0;
  for (let told = false; !told; ) {
    const query = cursor === undefined ? { limit: 100 } : { limit: 100, cursor };
    const { data, response } = await client.GET("/events", { params: { query } });
    check(data !== undefined, "The events are not listed.");
    for (const event of data) {
      check(event.id > last, `Event ${event.id} comes after ${last}.`);
      last = event.id;
      const { pet } = event.data as { pet?: Pet };
      told ||= event.type === "pet.created" && pet?.id === petId;
    }
    cursor = nextCursor(response);
  }
}

async function daysUse(): Promise<number> {
  const { data } = await client.GET("/account");
  check(data !== undefined && data.ban === null, "The account is not shown.");
  check(data.quota.day.used + data.quota.day.remaining === data.quota.day.limit, "The day does not add up.");
  return data.quota.day.used;
}

async function rejections(): Promise<string[]> {
  const invalid = createClient<paths>({ baseUrl, headers: { Authorization: "Bearer psk_live_not_a_key" } });
  const unknown = { params: { path: { petId: -1 } } };
  const unknownOrder = { params: { path: { orderId: -1 } } };
  const blank: NewPet = { name: " ", categoryId: Number(categoryId), status: "sold" };
  const answers = [
    await client.POST("/pets", { body: blank }),
    await invalid.GET("/pets"),
    await client.GET("/pets/{petId}", unknown),
    await client.POST("/store/orders", { body: { petId: -1 } }),
    await client.GET("/store/orders/{orderId}", unknownOrder),
    await client.DELETE("/store/orders/{orderId}", unknownOrder),
  ];
  return answers.map(({ error }) => {
    check(error !== undefined, "What should be rejected was accepted.");
    const { status, code, message }: components["schemas"]["Error"] = error;
    check(message.length > 0, "The rejection has no message.");
    return `${status} ${code}`;
  });
}

check(await hasCategory(Number(categoryId)), "The category is not listed.");
const found = { available: await count("available"), pending: await count("pending"), sold: await count("sold") };
const rejected = await rejections();
const made = await createAndFetch();
const ordered = await orderAndCancel(made);
await follow(made);
const used = await daysUse();
check(await hasCategory(Number(categoryId)), "The category is not listed.");
check((await daysUse()) === used + 1, "Fetching the account is not free.");
console.log(JSON.stringify({ found, rejections: rejected, made, ordered, called: [...called].sort() }));
