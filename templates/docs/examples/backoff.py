import os
import random
import time

import httpx

LONGEST_WAIT = 120  # Seconds. A longer one means: the day's quota is used up, or the key is banned.


def send(client: httpx.Client, request: httpx.Request) -> httpx.Response:
    """Send; after 429 or 503 wait at least as Retry-After says, each time longer, and send again."""
    for attempt in range(5):
        response = client.send(request)
        if response.status_code not in (429, 503):
            return response
        wait = max(int(response.headers.get("Retry-After", 1)), 2**attempt) + random.random()
        if wait > LONGEST_WAIT:
            return response
        time.sleep(wait)
    return client.send(request)


with httpx.Client(headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}) as client:
    request = client.build_request("GET", "{{ base_url }}/pets", params={"limit": 3})
    response = send(client, request)
if response.is_error:
    raise SystemExit(response.text)
print(response.json())
