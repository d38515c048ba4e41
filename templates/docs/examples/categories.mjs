const response = await fetch("{{ base_url }}/categories", {
  headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
});
if (!response.ok) throw new Error(await response.text());
for (const category of await response.json()) {
  console.log(category.id, category.name);
}
