import os

import httpx

response = httpx.get(
    "{{ base_url }}/pets",
    params={"status": "available", "limit": 3},
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
if response.is_error:
    raise SystemExit(response.text)
for pet in response.json():
    print(pet["id"], pet["name"])
