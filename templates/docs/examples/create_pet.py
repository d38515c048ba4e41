import os
import uuid

import httpx

# Clients can add pets, but only staff can remove them.
response = httpx.post(
    "{{ base_url }}/pets",
    json={"name": "Biscuit", "categoryId": 1},
    headers={
        "Authorization": f"Bearer {os.environ['PETSTORE_KEY']}",
        "Idempotency-Key": str(uuid.uuid4()),
    },
)
if response.is_error:
    raise SystemExit(response.text)
print(response.json())
