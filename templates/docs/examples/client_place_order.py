import json
import os
from pathlib import Path

from petstore_client import Client

client = Client(os.environ["PETSTORE_KEY"], base_url="{{ base_url }}")
pets = client.pets.list(status="available", limit=1)
if not pets:
    raise SystemExit("There is no pet to order.")
order = client.orders.place(pets[0].id)
Path("order.json").write_text(json.dumps({"id": order.id}))  # The next example needs it.
print(pets[0].name, order.id, order.status)
