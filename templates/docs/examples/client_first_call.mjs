import { Client } from "petstore-client";

const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
for (const pet of await client.pets.list({ status: "available", limit: 3 })) {
  console.log(pet.id, pet.name);
}
