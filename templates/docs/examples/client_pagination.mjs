import { Client } from "petstore-client";

const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
for await (const pet of client.pets.iterate({ status: "available" })) {
  console.log(pet.id, pet.name);
}
