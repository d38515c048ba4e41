import { writeFileSync } from "node:fs";

async function petstore(path, options = {}) {
  const headers = { ...options.headers, Authorization: `Bearer ${process.env.PETSTORE_KEY}` };
  const response = await fetch("{{ base_url }}" + path, { ...options, headers });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

const [pet] = await petstore("/pets?status=available&limit=1");
if (!pet) throw new Error("There is no pet to order.");
const order = await petstore("/store/orders", {
  method: "POST",
  body: JSON.stringify({ petId: pet.id }),
  headers: { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() },
});
writeFileSync("order.json", JSON.stringify(order)); // The next example needs the order's id.
console.log(pet.name, order);
