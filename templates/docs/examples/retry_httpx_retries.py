import os
import uuid

import httpx
from httpx_retries import Retry, RetryTransport


class ShortRetry(Retry):
    """Gives up at once on a wait of hours. With `max_backoff_wait` it would retry too early."""

    def sleep(self, response: httpx.Response | Exception) -> None:  # With AsyncClient: asleep.
        if isinstance(response, httpx.Response) and int(response.headers.get("Retry-After", 0)) > 120:
            raise SystemExit(f"Retry in {response.headers['Retry-After']} seconds.")
        super().sleep(response)


retry = ShortRetry(
    total=5,
    backoff_factor=1,
    status_forcelist=[408, 429, 500, 502, 503, 504],
    allowed_methods=["GET", "POST", "DELETE"],
)
petstore = httpx.Client(
    base_url="{{ base_url }}",
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
    transport=RetryTransport(retry=retry),
)
pet = petstore.get("/pets", params={"status": "available", "limit": 1}).json()[0]
order = petstore.post(
    "/store/orders", json={"petId": pet["id"]}, headers={"Idempotency-Key": str(uuid.uuid4())}
)
print(order.text)
