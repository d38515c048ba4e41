import os
import time
import uuid
from pathlib import Path
from typing import Any

import httpx

AGAIN = {408, 429, 500, 502, 503, 504}
LONGEST_WAIT = 120  # Seconds. A longer one means: the day's quota is used up, or the key is banned.


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
        wait = max(wait, int(response.headers.get("Retry-After", 1)))
        in_use = response.status_code == 409 and response.json()["code"] == "idempotency_key_in_use"
        if wait > LONGEST_WAIT or (response.status_code not in AGAIN and not in_use):
            return response
        time.sleep(wait)
    return client.post(url, json=body, headers=headers)


with httpx.Client(headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}) as client:
    pets = client.get("{{ base_url }}/pets", params={"status": "available", "limit": 1})
    if pets.is_error:
        raise SystemExit(pets.text)
    if not pets.json():
        raise SystemExit("There is no pet to order.")
    response = send_once(client, "{{ base_url }}/store/orders", {"petId": pets.json()[0]["id"]})
if response.is_error:
    raise SystemExit(response.text)
Path("order.json").write_text(response.text)
print(response.json())
