import os
import uuid
from typing import Any

import urllib3


class ShortRetry(urllib3.Retry):
    """Gives up at once on a wait of hours. With `retry_after_max` it would retry too early."""

    def increment(
        self, method: Any = None, url: Any = None, response: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if response is not None and (self.get_retry_after(response) or 0) > 120:
            raise SystemExit(f"Retry in {response.headers['Retry-After']} seconds.")
        return super().increment(method, url, response, *args, **kwargs)


retries = ShortRetry(
    total=5,
    backoff_factor=1,
    status_forcelist=[408, 429, 500, 502, 503, 504],
    allowed_methods=None,  # Also retries POST. With requests, use HTTPAdapter(max_retries=retries).
    raise_on_status=False,
)
petstore = urllib3.PoolManager(
    retries=retries, headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}
)
pet = petstore.request("GET", "{{ base_url }}/pets?status=available&limit=1").json()[0]
order = petstore.request(
    "POST",
    "{{ base_url }}/store/orders",
    json={"petId": pet["id"]},
    headers={**petstore.headers, "Idempotency-Key": str(uuid.uuid4())},
)
print(order.data.decode())
