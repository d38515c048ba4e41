import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";

const POSITION = "events.next"; // The URL of the next page, and the ETag of the page before it.

// Save the position atomically, in case the program is killed.
function save(url, etag) {
  writeFileSync(`${POSITION}.new`, `${url}\n${etag}`);
  renameSync(`${POSITION}.new`, POSITION);
}

// Process all events since the last run, oldest first.
async function catchUp() {
  const position = existsSync(POSITION) ? readFileSync(POSITION, "utf8") : "{{ base_url }}/events?limit=100";
  let [url, etag = ""] = position.split("\n");
  let events;
  do {
    const response = await fetch(url, {
      headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}`, "If-None-Match": etag },
    });
    const unchanged = response.status === 304; // There are no new events.
    if (!response.ok && !unchanged) throw new Error(await response.text());
    events = unchanged ? [] : await response.json();
    for (const { id, type } of events) console.log(id, type);
    url = /<([^>]*)>; rel="next"/.exec(response.headers.get("Link"))[1]; // A 304 also has one.
    etag = response.headers.get("ETag");
    save(url, etag);
  } while (events.length > 0);
}

await catchUp();
