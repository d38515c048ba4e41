async function petstore(path) {
  const headers = { Authorization: `Bearer ${process.env.PETSTORE_KEY}` };
  const response = await fetch("{{ base_url }}" + path, { headers });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

const [first] = await petstore("/store/orders?limit=1");
console.log(await petstore(`/store/orders/${first.id}`));
