// Clients can add pets, but only staff can remove them.
const response = await fetch("{{ base_url }}/pets", {
  method: "POST",
  body: JSON.stringify({ name: "Biscuit", categoryId: 1 }),
  headers: {
    Authorization: `Bearer ${process.env.PETSTORE_KEY}`,
    "Content-Type": "application/json",
    "Idempotency-Key": crypto.randomUUID(),
  },
});
if (!response.ok) throw new Error(await response.text());
console.log(await response.json());
