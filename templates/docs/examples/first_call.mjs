const response = await fetch("{{ base_url }}/pets?status=available&limit=3", {
  headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
});
if (!response.ok) throw new Error(await response.text());
for (const pet of await response.json()) {
  console.log(pet.id, pet.name);
}
