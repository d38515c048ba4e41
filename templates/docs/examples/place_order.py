import os
import uuid
from pathlib import Path

import httpx


def raise_for_error(response: httpx.Response) -> None:
    """Exit with the Error of the service."""
    if response.is_error:
        raise SystemExit(response.read().decode())


petstore = httpx.Client(
    base_url="{{ base_url }}",
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
    event_hooks={"response": [raise_for_error]},
)
pets = petstore.get("/pets", params={"status": "available", "limit": 1}).json()
if not pets:
    raise SystemExit("There is no pet to order.")
pet = pets[0]
order = petstore.post(
    "/store/orders",
    json={"petId": pet["id"]},
    headers={"Idempotency-Key": str(uuid.uuid4())},
)
Path("order.json").write_text(order.text)  # The next example needs the order's id.
print(pet["name"], order.json())
