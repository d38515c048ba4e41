"""However the service runs on PostgreSQL, every answer is the same."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from django.db import connection

from petstore.api.openapi.lists import lists
from tests.support.live import Service, live_service

pytestmark = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="On SQLite there is one way to serve."
)
OTHER_WAYS = {
    "threads": {"SERVE_MODE": "threads"},
    "no prepared statements": {"DATABASE_PREPARED_STATEMENTS": "false"},
}

BY_THE_CLOCK = re.compile(r"(?<=;t=)\d+")
VARIES = {"date", "x-ratelimit-reset"}


class Answer(NamedTuple):
    """All that a client sees."""

    request: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes


NEW = {"name": "Rex", "categoryId": 1, "status": "available"}
JSON = {"Content-Type": "application/json"}
TWICE = {"Idempotency-Key": "twice"}

CONVERSATION: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/pets", {}),
    ("POST", "/pets", {"json": NEW}),
    ("POST", "/pets", {"json": NEW | {"name": " Ünï 犬 "}}),
    ("POST", "/pets", {"json": {"name": "No status", "categoryId": 2}}),
    *[("POST", "/pets", {"json": NEW | {"name": f"Pet {n}"}}) for n in range(4, 24)],
    ("POST", "/pets", {"json": NEW, "headers": TWICE}),
    ("POST", "/pets", {"json": NEW, "headers": TWICE}),
    ("POST", "/pets", {"json": NEW | {"name": "Max"}, "headers": TWICE}),
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
    ("GET", "/pets?x=" + "a" * 9_000, {}),
]


def answers(folder: Path, **environment: str) -> list[Answer]:
    """Return what a service with a database of its own answers to the conversation, and to strangers."""
    own = {"BASE_URL": "http://petstore.test/v1", "COUNTERS_DIR": str(folder)}
    with live_service(folder, workers=1, **own | environment) as service:
        business, narrow = service.issue("Fast"), service.issue("Narrow", "enterprise", *NARROW)
        return [
            *converse(service, str(business["key"]), [*CONVERSATION, *filtered_lists()]),
            *converse(service, str(narrow["key"]), [("GET", "/pets?limit=1", {})] * 4),
            *converse(service, "", [("GET", "/pets", {})]),
            *converse(service, "no-key", [("GET", "/pets", {}), ("GET", "/nothing", {})]),
        ]


def filtered_lists() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield requests for each list by each of its filters, and by all of them; some are refused."""
    for one in lists():
        values = {each.name: each.words or ("1", "2") for each in one.filters}
        together = {name: words[0] for name, words in values.items()}
        queries = [
            {name: word} for name, words in values.items() for word in (*words, "", "made-up", "%ff")
        ]
        for query in [*queries, together]:
            yield "GET", f"{one.path}?{'&'.join(f'{name}={value}' for name, value in query.items())}", {}


NARROW = ("--per-minute", "2", "--per-day", "1000")


def converse(
    service: Service, key: str, conversation: list[tuple[str, str, dict[str, Any]]]
) -> Iterator[Answer]:
    headers = {"X-Request-Id": "one-of-many-ways"} | ({"Authorization": f"Bearer {key}"} if key else {})
    with httpx.Client(base_url=f"{service.url}/v1", headers=headers, timeout=30) as client:
        for method, path, options in conversation:
            response = client.request(method, path, **options)
            shown = sorted(
                (name, BY_THE_CLOCK.sub("...", value))
                for name, value in response.headers.items()
                if name not in VARIES
            )
            yield Answer(f"{method} {path[:60]}", response.status_code, shown, response.content)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """What the service answers as it runs by default: on an event loop, with prepared statements."""
    return answers(tmp_path_factory.mktemp("default"))


def test_the_conversation_meets_every_kind_of_answer(expected: list[Answer]) -> None:
    statuses = {answer.status for answer in expected}
    assert statuses >= {200, 201, 204, 304, 400, 401, 404, 405, 409, 413, 414, 415, 422, 429}


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_every_answer_is_the_same_on_another_way(expected: list[Answer], tmp_path: Path, way: str) -> None:
    for one, other in zip(answers(tmp_path, **OTHER_WAYS[way]), expected, strict=True):
        assert one == other
