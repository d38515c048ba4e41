const response = await fetch("{{ base_url }}/store/orders?limit=5", {
  headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
});
if (!response.ok) throw new Error(await response.text());
for (const order of await response.json()) {
  console.log(order.id, order.status, order.shipDate ?? "no ship date yet");
}
