import os

import httpx

response = httpx.get(
    "{{ base_url }}/categories",
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
if response.is_error:
    raise SystemExit(response.text)
for category in response.json():
    print(category["id"], category["name"])
