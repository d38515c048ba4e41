import os

import httpx

response = httpx.get(
    "{{ base_url }}/store/orders",
    params={"limit": 5},
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
for order in response.raise_for_status().json():
    print(order["id"], order["status"], order["shipDate"] or "no ship date yet")
