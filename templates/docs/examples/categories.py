import os

import httpx

response = httpx.get(
    "{{ base_url }}/categories",
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
for category in response.raise_for_status().json():
    print(category["id"], category["name"])
