// All pets are added, or none.
const response = await fetch("{{ base_url }}/pets/batch", {
  method: "POST",
  body: JSON.stringify({
    pets: [
      { name: "Biscuit", categoryId: 1 },
      { name: "Marble", categoryId: 2 },
    ],
  }),
  headers: {
    Authorization: `Bearer ${process.env.PETSTORE_KEY}`,
    "Content-Type": "application/json",
    "Idempotency-Key": crypto.randomUUID(),
  },
});
if (!response.ok) throw new Error(await response.text());
for (const pet of await response.json()) console.log(pet.id, pet.name);
