"""Requests through the proxy, from inside the network of the containers' host, until standard input ends.

    python -m tests.system.deployment.traffic KEY CERTIFICATE

Lists and adds pets at a steady rate, one request at a time. Prints a JSON object at the end: how many
requests were sent, the unexpected responses, and the ids of the pets that were added.
"""

from __future__ import annotations

import json
import ssl
import sys
import threading

import httpx

HOST = "api.example.com"
INTERVAL = 0.02  # Seconds.
PET = {"name": "Rex", "categoryId": 1}


def main(key: str, certificate: str) -> None:
    stopped = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    headers = {"Authorization": f"Bearer {key}", "Host": HOST}
    context = ssl.create_default_context(cafile=certificate)
    sent, added, unexpected = 0, [], []
    with httpx.Client(base_url="https://127.0.0.1/v1", headers=headers, verify=context) as client:
        while not stopped.wait(INTERVAL):
            writes = sent % 5 == 0
            method, body = ("POST", PET) if writes else ("GET", None)
            try:
                response = client.request(
                    method, "/pets", json=body, extensions={"sni_hostname": HOST}, timeout=10
                )
            except httpx.HTTPError as error:
                unexpected.append(repr(error))
            else:
                if response.status_code != (201 if writes else 200):
                    unexpected.append(f"{method}: {response.status_code} {response.text[:200]}")
                elif writes:
                    added.append(response.json()["id"])
            sent += 1
    print(json.dumps({"sent": sent, "unexpected": unexpected, "added": added}))


if __name__ == "__main__":
    main(*sys.argv[1:])
