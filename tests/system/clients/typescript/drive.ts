// drive.py with the TypeScript client that is generated from the service's OpenAPI document.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

type Pet = components["schemas"]["Pet"];
type NewPet = components["schemas"]["NewPet"];
type NewOrder = components["schemas"]["NewOrder"];

const [, , baseUrl = "", key = ""] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

const query = { status: "available", limit: 2 } as const;
const { data: pets } = await client.GET("/pets", { params: { query } });
const first: Pet | undefined = pets?.[0];
check(pets !== undefined && first !== undefined, "The pets are not listed.");
check(pets.every(({ status }) => status === query.status), "A listed pet is not available.");
const pet: NewPet = { name: "Generated", categoryId: first.categoryId, status: "available" };
const { data: made } = await client.POST("/pets", { body: pet });
check(made !== undefined, "The pet is not created.");
const { data: found } = await client.GET("/pets/{petId}", { params: { path: { petId: made.id } } });
check(JSON.stringify(found) === JSON.stringify(made), "The new pet has changed.");
const body: NewOrder = { petId: made.id };
const { data: order } = await client.POST("/store/orders", { body });
check(order !== undefined, "The order is not placed.");
const { error: taken } = await client.POST("/store/orders", { body });
const path = { orderId: order.id };
const cancelled = await client.DELETE("/store/orders/{orderId}", { params: { path } });
console.log(JSON.stringify([pets.length, order.petId === made.id, taken?.code, cancelled.response.status]));
