import json
import os
from pathlib import Path

import httpx

PLACED = Path("order.json")  # Has the order to cancel.
if not PLACED.exists():
    raise SystemExit("There is nothing to cancel: place an order first.")
order = json.loads(PLACED.read_text())
response = httpx.delete(
    f"{{ base_url }}/store/orders/{order['id']}",
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
)
if response.is_error:
    raise SystemExit(response.text)
print(order["id"], response.status_code)
