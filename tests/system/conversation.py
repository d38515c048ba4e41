"""A conversation with the service that gets every kind of response, and the record of these.

    python -m tests.system.conversation

regenerates the record, answers.json, with the service's responses on SQLite, or on the database of
DATABASE_URL. Its diff shows what clients will notice: test_serve_modes.py compares every serve mode with
it. Values that depend on the clock are omitted.
"""

import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import django
import httpx

from tests import environment
from tests.support.live import Service, live_service

RECORD = Path(__file__).with_name("answers.json")
CLOCK_VALUES = re.compile(r"(?<=;t=)\d+|(?<=Try again in )\d+")
REMAINING_OF_ADDRESS = re.compile(r"\b9999\d\d\b")  # Of a million, reset every minute.
VOLATILE_HEADERS = {"date", "retry-after", "x-ratelimit-reset"}


class RecordedResponse(NamedTuple):
    """What a client sees of a response."""

    request: str
    status: int
    headers: dict[str, str]
    body: str


NEW = {"name": "Rex", "categoryId": 1, "status": "available"}
JSON = {"Content-Type": "application/json"}
REPEATED = {"Idempotency-Key": "twice"}

CONVERSATION: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/pets", {}),
    ("POST", "/pets", {"json": NEW}),
    ("POST", "/pets", {"json": NEW | {"name": " Ünï 犬 "}}),
    ("POST", "/pets", {"json": {"name": "No status", "categoryId": 2}}),
    *[("POST", "/pets", {"json": NEW | {"name": f"Pet {n}"}}) for n in range(4, 24)],
    ("POST", "/pets", {"json": NEW, "headers": REPEATED}),
    ("POST", "/pets", {"json": NEW, "headers": REPEATED}),
    ("POST", "/pets", {"json": NEW | {"name": "Max"}, "headers": REPEATED}),
    ("POST", "/pets", {"json": NEW, "headers": {"Idempotency-Key": "é".encode()}}),
    ("POST", "/pets", {"json": {"name": "", "categoryId": 999, "status": "lost"}}),
    ("POST", "/pets", {"json": NEW | {"categoryId": 999}}),
    ("POST", "/pets", {"json": []}),
    ("POST", "/pets", {"content": b"{", "headers": JSON}),
    ("POST", "/pets", {"content": b"x" * 70_000, "headers": JSON}),
    ("POST", "/pets", {"content": b"x", "headers": {"Content-Type": "text/plain"}}),
    ("GET", "/pets", {}),
    ("GET", "/pets?limit=5", {}),
    ("GET", "/pets?limit=5&status=available", {}),
    ("GET", "/pets?limit=0", {}),
    ("GET", "/pets?cursor=made-up", {}),
    ("GET", "/pets?limit=1&limit=2", {}),
    ("HEAD", "/pets", {}),
    ("GET", "/pets/1", {}),
    ("GET", "/pets/1", {"headers": {"If-None-Match": "*"}}),
    ("GET", "/pets/999", {}),
    ("GET", "/pets/01", {}),
    ("GET", "/pets/%C3%A9", {}),
    ("DELETE", "/pets/1", {}),
    ("OPTIONS", "/pets", {}),
    ("GET", "/nothing", {}),
    ("GET", "", {}),
    ("GET", "/categories?limit=2", {}),
    ("POST", "/store/orders", {"json": {"petId": 1}}),
    ("POST", "/store/orders", {"json": {"petId": 1}}),
    ("POST", "/store/orders", {"json": {"petId": 2}, "headers": {"Idempotency-Key": "order"}}),
    ("POST", "/store/orders", {"json": {"petId": 2}, "headers": {"Idempotency-Key": "order"}}),
    ("POST", "/store/orders", {"json": {"petId": 999}}),
    ("GET", "/store/orders", {}),
    ("GET", "/store/orders?status=placed&limit=1", {}),
    ("GET", "/store/orders/1", {}),
    ("DELETE", "/store/orders/1", {}),
    ("DELETE", "/store/orders/1", {}),
    ("GET", "/store/orders/999", {}),
    ("POST", "/account", {"json": {}}),
    ("GET", "/pets?x=" + "a" * 9_000, {}),
]

MALFORMED_HEADS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/pets", {"headers": {"X-Long": "a" * 8_193}}),
    ("GET", "/pets", {"headers": {"Host": "a,b"}}),
    ("GET", "/pets", {"headers": {"Content-Type": "a" * 257}}),
    ("POST", "/pets", {"json": NEW, "headers": {"Content-Encoding": "gzip"}}),
    ("BREW", "/pets", {}),
]


def get_responses(folder: Path, **environment: str) -> list[RecordedResponse]:
    """Return the responses of a new service to the conversation, with and without a key."""
    own = {"BASE_URL": "http://petstore.test/v1", "COUNTERS_DIR": str(folder)}
    with live_service(folder, workers=1, **own | environment) as service:
        business, narrow = service.issue("Fast"), service.issue("Narrow", "enterprise", *NARROW)
        suspended = service.issue("Suspended")
        service.manage("suspend_account", "Suspended", "--reason", "Unpaid")
        return [
            *converse(service, str(business["key"]), [*CONVERSATION, *filtered_lists()]),
            *converse(service, str(narrow["key"]), [("GET", "/pets?limit=1", {})] * 4),
            *converse(service, str(suspended["key"]), [("GET", "/pets", {}), ("GET", "/account", {})]),
            *converse(service, "", [("GET", "/pets", {})]),
            *converse(service, "no-key", [("GET", "/pets", {}), ("GET", "/nothing", {})]),
            *converse(service, str(business["key"]), MALFORMED_HEADS),
        ]


def filtered_lists() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield requests for each list by each of its filters, and by all of them; some are rejected."""
    # Needs Django, which a command sets up first.
    from petstore.api.openapi.lists import get_list_filters

    for path, filters in get_list_filters().items():
        values = {name: choices or ("1", "2") for name, choices in filters.items()}
        together = {name: words[0] for name, words in values.items()}
        queries = [
            {name: word} for name, words in values.items() for word in (*words, "", "made-up", "%ff")
        ]
        for query in [*queries, together]:
            yield "GET", f"{path}?{'&'.join(f'{name}={value}' for name, value in query.items())}", {}


NARROW = ("--per-minute", "2", "--per-day", "1000")


def converse(
    service: Service, key: str, conversation: list[tuple[str, str, dict[str, Any]]]
) -> Iterator[RecordedResponse]:
    headers = {"X-Request-Id": "one-of-many-ways"} | ({"Authorization": f"Bearer {key}"} if key else {})
    with httpx.Client(base_url=f"{service.url}/v1", headers=headers, timeout=30) as client:
        for method, path, options in conversation:
            response = client.request(method, path, **options)
            received = sorted(response.headers.items())  # A header that came twice has both values.
            yield RecordedResponse(
                f"{method} {path[:60]}",
                response.status_code,
                {
                    name: "..." if name in VOLATILE_HEADERS else mask_volatile(value)
                    for name, value in received
                },
                mask_volatile(response.content.decode()),
            )


def mask_volatile(text: str) -> str:
    """Mask the remaining seconds of a window, and counts that a new minute may reset."""
    return REMAINING_OF_ADDRESS.sub("9999..", CLOCK_VALUES.sub("...", text))


def read_record() -> list[RecordedResponse]:
    """Return the recorded responses."""
    return [RecordedResponse(**response) for response in json.loads(RECORD.read_text())]


def main() -> None:
    """Regenerate the record."""
    os.environ |= environment.FIXED | {"DJANGO_SETTINGS_MODULE": "petstore.settings"}
    django.setup()
    logging.getLogger("httpx").setLevel(logging.WARNING)  # It would log every request.
    with tempfile.TemporaryDirectory() as folder:
        found = [response._asdict() for response in get_responses(Path(folder))]
    RECORD.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
