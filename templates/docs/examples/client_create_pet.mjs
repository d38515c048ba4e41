import { Client } from "petstore-client";

const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
const pet = await client.pets.create({ name: "Biscuit", categoryId: 1 }); // Only staff can remove it.
console.log(pet.id, pet.name, pet.status);
