import os
from pathlib import Path

import httpx

PLACE = Path("events.next")  # Has the address of the next page, and the ETag of the page before it.


def keep(url: str, etag: str) -> None:
    """Note where to go on; whenever this program is killed, the file has the old place or the new one."""
    new = PLACE.with_suffix(".new")
    new.write_text(f"{url}\n{etag}")
    new.replace(PLACE)


def catch_up(client: httpx.Client) -> None:
    """Handle all events since the last time, the oldest first."""
    place = PLACE.read_text() if PLACE.exists() else "{{ base_url }}/events?limit=100"
    url, _, etag = place.strip().partition("\n")
    while True:
        response = client.get(url, headers={"If-None-Match": etag})
        if response.is_error:
            raise SystemExit(response.text)
        events = [] if response.status_code == 304 else response.json()  # 304: still an empty page.
        for event in events:
            print(event["id"], event["type"])
        url, etag = response.links["next"]["url"], response.headers["ETag"]  # A 304 has both, too.
        keep(url, etag)
        if not events:
            return


with httpx.Client(headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}) as client:
    catch_up(client)
