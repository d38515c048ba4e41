import os

import httpx

response = httpx.get(
    "{{ base_url }}/store/orders",
    params={"limit": 5},
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
if response.is_error:
    raise SystemExit(response.text)
for order in response.json():
    print(order["id"], order["status"], order["shipDate"] or "no ship date yet")
