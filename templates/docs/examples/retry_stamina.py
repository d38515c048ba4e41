import os
import uuid
from typing import Any

import httpx
import stamina

RETRYABLE = {408, 429, 500, 502, 503, 504}


def seconds_to_wait(error: Exception) -> float | bool:
    """Return False to give up, True to wait as stamina does, or the seconds to wait."""
    if not isinstance(error, httpx.HTTPStatusError):
        return isinstance(error, httpx.TransportError)
    seconds = float(error.response.headers.get("Retry-After", 1))
    return seconds if error.response.status_code in RETRYABLE and seconds <= 120 else False


@stamina.retry(on=seconds_to_wait, attempts=5, timeout=600)  # The default timeout is 45 seconds.
def send(method: str, path: str, **options: Any) -> httpx.Response:
    return petstore.request(method, path, **options).raise_for_status()


petstore = httpx.Client(
    base_url="{{ base_url }}", headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}
)
once = {"Idempotency-Key": str(uuid.uuid4())}  # All attempts have the same key.
try:
    pet = send("GET", "/pets?status=available&limit=1").json()[0]
    print(send("POST", "/store/orders", json={"petId": pet["id"]}, headers=once).text)
except httpx.HTTPStatusError as error:
    raise SystemExit(error.response.text) from error
