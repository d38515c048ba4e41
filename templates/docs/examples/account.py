import math
import os
from datetime import UTC, datetime
from typing import Any

import httpx


def seconds_to_wait(account: dict[str, Any]) -> float:
    """Return the seconds until a request will be admitted."""
    ends = [window["resetsAt"] for window in account["quota"].values() if window["remaining"] == 0]
    if account["ban"]:
        ends.append(account["ban"]["until"])
    waits = [(datetime.fromisoformat(end) - datetime.now(UTC)).total_seconds() for end in ends]
    return max([0, *waits])


with httpx.Client(headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}) as client:
    response = client.get("{{ base_url }}/account")
if response.is_error:
    raise SystemExit(response.text)
account = response.json()

for name, window in account["quota"].items():
    print(f"{name}: {window['remaining']} of {window['limit']} left until {window['resetsAt']}")
print(f"Next request in {math.ceil(seconds_to_wait(account))} s")
