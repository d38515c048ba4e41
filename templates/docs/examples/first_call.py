import os

import httpx

response = httpx.get(
    "{{ base_url }}/pets",
    params={"status": "available", "limit": 3},
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
for pet in response.raise_for_status().json():
    print(pet["id"], pet["name"])
