import os
import uuid

import httpx

petstore = httpx.Client(
    base_url="{{ base_url }}",
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
pets = petstore.get("/pets", params={"status": "available", "limit": 1})
pet = pets.raise_for_status().json()[0]
order = petstore.post(
    "/store/orders",
    json={"petId": pet["id"]},
    headers={"Idempotency-Key": str(uuid.uuid4())},
)
print(pet["name"], order.raise_for_status().json())
