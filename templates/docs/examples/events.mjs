import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";

const PLACE = "events.next"; // Has the address of the page that comes next.

// Note where to go on; whenever this program is killed, the file has the old address or the new one.
function keep(url) {
  writeFileSync(`${PLACE}.new`, url);
  renameSync(`${PLACE}.new`, PLACE);
}

// Handle all events since the last time, the oldest first.
async function catchUp() {
  let url = existsSync(PLACE) ? readFileSync(PLACE, "utf8") : "{{ base_url }}/events?limit=100";
  let events;
  do {
    const response = await fetch(url, {
      headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
    });
    if (!response.ok) throw new Error(await response.text());
    events = await response.json();
    for (const { id, type } of events) console.log(id, type);
    url = /<([^>]*)>; rel="next"/.exec(response.headers.get("Link"))[1];
    keep(url);
  } while (events.length > 0);
}

await catchUp();
