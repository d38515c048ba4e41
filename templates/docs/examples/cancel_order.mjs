import { existsSync, readFileSync } from "node:fs";

const PLACED = "order.json"; // Has the order to cancel.
if (!existsSync(PLACED)) throw new Error("There is nothing to cancel: place an order first.");
const { id } = JSON.parse(readFileSync(PLACED, "utf8"));
const response = await fetch(`{{ base_url }}/store/orders/${id}`, {
  method: "DELETE",
  headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
});
if (!response.ok) throw new Error(await response.text());
console.log(id, response.status);
