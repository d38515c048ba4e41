import { Client } from "petstore-client";

const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
const { quota, ban } = await client.account();
for (const [name, { remaining, limit, resetsAt }] of Object.entries(quota)) {
  console.log(`${name}: ${remaining} of ${limit} left until ${resetsAt}`);
}
console.log("Banned until:", ban?.until ?? null);
