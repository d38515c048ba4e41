import os

import httpx

response = httpx.request(
    {method},
    {url},
    headers={
        "Authorization": f"Bearer {os.environ['PETSTORE_KEY']}",
        "Content-Type": "application/json",
        {name}: {value},
    },
    content={body},
)
print(response.status_code, response.text)
