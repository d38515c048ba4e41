import os
import uuid

import httpx

# The pet stays: clients add pets, and only staff take them away.
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
