import os

import httpx


def stop_at_an_error(response: httpx.Response) -> None:
    """Stop, and show what the service says."""
    if response.is_error:
        raise SystemExit(response.read().decode())


petstore = httpx.Client(
    base_url="{{ base_url }}",
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
    event_hooks={"response": [stop_at_an_error]},
)
[first] = petstore.get("/store/orders", params={"limit": 1}).json()
print(petstore.get(f"/store/orders/{first['id']}").json())
