import os

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
[first] = petstore.get("/store/orders", params={"limit": 1}).json()
print(petstore.get(f"/store/orders/{first['id']}").json())
