import { writeFileSync } from "node:fs";
import { Client } from "petstore-client";

const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
const [pet] = await client.pets.list({ status: "available", limit: 1 });
if (!pet) throw new Error("There is no pet to order.");
const order = await client.orders.place(pet.id);
writeFileSync("order.json", JSON.stringify(order)); // The next example needs it.
console.log(pet.name, order.id, order.status);
