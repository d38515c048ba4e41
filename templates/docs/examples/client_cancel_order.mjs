import { existsSync, readFileSync } from "node:fs";
import { Client } from "petstore-client";

const PLACED = "order.json"; // Has the order to cancel.
if (!existsSync(PLACED)) throw new Error("There is nothing to cancel: place an order first.");
const { id } = JSON.parse(readFileSync(PLACED, "utf8"));
const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
await client.orders.cancel(id);
console.log(id, (await client.orders.get(id)).status);
