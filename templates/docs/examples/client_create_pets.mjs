import { Client } from "petstore-client";

const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
const pets = await client.pets.createMany([
  { name: "Biscuit", categoryId: 1 },
  { name: "Marble", categoryId: 2 },
]); // All are added, or none.
for (const pet of pets) console.log(pet.id, pet.name);
