import os
import time
import uuid
from typing import Any

import httpx

AGAIN = {429, 500, 502, 503, 504}


def send_once(client: httpx.Client, url: str, body: Any) -> httpx.Response:
    """POST until there is an answer. However often it is sent, it is done once."""
    headers = {"Idempotency-Key": str(uuid.uuid4())}  # One for all tries.
    for attempt in range(5):
        wait = 2**attempt
        try:
            response = client.post(url, json=body, headers=headers)
        except httpx.TransportError:  # No answer, and no telling whether it was done.
            time.sleep(wait)
            continue
        in_use = response.status_code == 409 and response.json()["code"] == "idempotency_key_in_use"
        if response.status_code not in AGAIN and not in_use:
            return response
        time.sleep(max(int(response.headers.get("Retry-After", 1)), wait))
    return client.post(url, json=body, headers=headers)


with httpx.Client(headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}) as client:
    response = send_once(client, "{{ base_url }}/pets", {"name": "Biscuit", "categoryId": 1})
    print(response.raise_for_status().json())
