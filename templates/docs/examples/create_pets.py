import os
import uuid

import httpx

# All pets are added, or none.
response = httpx.post(
    "{{ base_url }}/pets/batch",
    json={"pets": [{"name": "Biscuit", "categoryId": 1}, {"name": "Marble", "categoryId": 2}]},
    headers={
        "Authorization": f"Bearer {os.environ['PETSTORE_KEY']}",
        "Idempotency-Key": str(uuid.uuid4()),
    },
)
if response.is_error:
    raise SystemExit(response.text)
for pet in response.json():
    print(pet["id"], pet["name"])
