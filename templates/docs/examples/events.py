import os
from pathlib import Path

import httpx

PLACE = Path("events.next")  # Has the address of the page that comes next.


def keep(url: str) -> None:
    """Note where to go on; whenever this program is killed, the file has the old address or the new one."""
    new = PLACE.with_suffix(".new")
    new.write_text(url)
    new.replace(PLACE)


def catch_up(client: httpx.Client) -> None:
    """Handle all events since the last time, the oldest first."""
    url = PLACE.read_text() if PLACE.exists() else "{{ base_url }}/events?limit=100"
    while True:
        response = client.get(url)
        if response.is_error:
            raise SystemExit(response.text)
        events = response.json()
        for event in events:
            print(event["id"], event["type"])
        url = response.links["next"]["url"]
        keep(url)
        if not events:
            return


with httpx.Client(headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}) as client:
    catch_up(client)
