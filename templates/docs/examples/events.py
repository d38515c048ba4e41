import os
from pathlib import Path

import httpx

POSITION = Path("events.next")  # The URL of the next page, and the ETag of the page before it.


def save(url: str, etag: str) -> None:
    """Save the position atomically, in case the program is killed."""
    new = POSITION.with_suffix(".new")
    new.write_text(f"{url}\n{etag}")
    new.replace(POSITION)


def catch_up(client: httpx.Client) -> None:
    """Process all events since the last run, oldest first."""
    position = POSITION.read_text() if POSITION.exists() else "{{ base_url }}/events?limit=100"
    url, _, etag = position.strip().partition("\n")
    while True:
        response = client.get(url, headers={"If-None-Match": etag})
        if response.is_error:
            raise SystemExit(response.text)
        events = [] if response.status_code == 304 else response.json()  # No new events.
        for event in events:
            print(event["id"], event["type"])
        url, etag = response.links["next"]["url"], response.headers["ETag"]  # A 304 also has both.
        save(url, etag)
        if not events:
            return


with httpx.Client(headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}) as client:
    catch_up(client)
