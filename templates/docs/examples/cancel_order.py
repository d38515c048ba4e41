import os

import httpx

petstore = httpx.Client(
    base_url="{{ base_url }}",
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
orders = petstore.get("/store/orders", params={"status": "placed", "limit": 1})
for order in orders.raise_for_status().json():
    cancelled = petstore.delete(f"/store/orders/{order['id']}")
    print(order["id"], cancelled.raise_for_status().status_code)
