import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Client } from "petstore-client";

const position = "events.cursor"; // Is written after the events before it were processed.
const cursor = existsSync(position) ? readFileSync(position, "utf8") : undefined;
const save = (cursor) => writeFileSync(position, cursor);

const client = new Client(process.env.PETSTORE_KEY, { baseUrl: "{{ base_url }}" });
for await (const event of client.events.follow({ cursor, save })) {
  console.log(event.id, event.type);
}
