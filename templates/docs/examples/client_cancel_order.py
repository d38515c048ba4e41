import json
import os
from pathlib import Path

from petstore_client import Client

PLACED = Path("order.json")  # Has the order to cancel.
if not PLACED.exists():
    raise SystemExit("There is nothing to cancel: place an order first.")
order_id = int(json.loads(PLACED.read_text())["id"])
client = Client(os.environ["PETSTORE_KEY"], base_url="{{ base_url }}")
client.orders.cancel(order_id)
print(order_id, client.orders.get(order_id).status)
