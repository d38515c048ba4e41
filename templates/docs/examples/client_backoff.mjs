import { Client } from "petstore-client";

const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
const lists = Array.from({ length: 10 }, (_, index) => client.pets.list({ categoryId: index + 1, limit: 3 }));
for (const pets of await Promise.all(lists)) {
  console.log(pets.map(({ name }) => name));
}
