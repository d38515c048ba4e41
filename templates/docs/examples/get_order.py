import os

import httpx

petstore = httpx.Client(
    base_url="{{ base_url }}",
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
[first] = petstore.get("/store/orders", params={"limit": 1}).raise_for_status().json()
order = petstore.get(f"/store/orders/{first['id']}")
print(order.raise_for_status().json())
