import os
from pathlib import Path

from petstore_client import Client

position = Path("events.cursor")  # Is written after the events before it were processed.
cursor = position.read_text() if position.exists() else None

client = Client(os.environ["PETSTORE_KEY"], base_url="{{ base_url }}")
for event in client.events.follow(cursor=cursor, save=position.write_text):
    print(event.id, event.type, flush=True)
