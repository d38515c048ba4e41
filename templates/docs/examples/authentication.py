import os

import httpx

# A client sends the key with each request, and reuses the connection.
petstore = httpx.Client(
    base_url="{{ base_url }}",
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
response = petstore.get("/categories")
if response.status_code == 401:
    raise SystemExit(f"Check the key: {response.json()['message']}")
print(len(response.json()), "categories")
