import os
from collections.abc import Iterator
from typing import Any

import httpx


def every_pet(client: httpx.Client, status: str) -> Iterator[dict[str, Any]]:
    """Yield all pets with a status, page by page."""
    url = f"{{ base_url }}/pets?status={status}&limit=100"
    while url:
        response = client.get(url)
        if response.is_error:
            raise SystemExit(response.text)
        yield from response.json()
        url = response.links.get("next", {}).get("url", "")


with httpx.Client(headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}) as client:
    for pet in every_pet(client, "available"):
        print(pet["id"], pet["name"])
