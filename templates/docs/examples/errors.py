import os

import httpx

response = httpx.post(
    "{{ base_url }}/pets",
    json={"categoryId": "cat"},
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
if response.is_error:
    error = response.json()
    print(error["status"], error["code"], error["message"])
    for detail in error.get("details", []):
        print("-", detail["field"], detail["code"], detail["message"])
    print("Help:", response.links["help"]["url"])
    print("To report:", response.headers["X-Request-Id"])
