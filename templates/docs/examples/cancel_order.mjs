async function petstore(path, options = {}) {
  const headers = { Authorization: `Bearer ${process.env.PETSTORE_KEY}` };
  const response = await fetch("{{ base_url }}" + path, { ...options, headers });
  if (!response.ok) throw new Error(await response.text());
  return response;
}

const orders = await petstore("/store/orders?status=placed&limit=1");
for (const { id } of await orders.json()) {
  const cancelled = await petstore(`/store/orders/${id}`, { method: "DELETE" });
  console.log(id, cancelled.status);
}
