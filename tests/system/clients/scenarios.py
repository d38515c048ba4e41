"""Uses the client package as a program does: `scenarios.py NAME BASE_URL KEY [JSON]` prints JSON.

scenarios.mjs does the same with the TypeScript package.
"""

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Event
from typing import Any

from petstore_client import ApiError, Client, NewPet, PetstoreError, RateLimitError, verify_webhook

WORKERS = 40


def journey(client: Client, options: dict[str, Any]) -> dict[str, Any]:
    first = client.pets.list(status="available", limit=2)
    second = client.pets.list(status="available", limit=2, cursor=first.next_cursor)
    made = client.pets.create("Biscuit", first[0].category_id)
    batch = client.pets.create_many([NewPet("Marble", made.category_id), NewPet("Rex", 1, "sold")])
    order = client.orders.place(made.id)
    client.orders.cancel(order.id)
    client.orders.cancel(order.id)
    assert client.quota is not None
    return {
        "ascending": first[-1].id < second[0].id,
        "batch": [[pet.name, pet.status] for pet in batch],
        "categories": len(list(client.categories.iterate())),
        "pets": sum(1 for _ in client.pets.iterate(category_id=made.category_id)),
        "order": [order.pet_id == made.id, order.status, client.orders.get(order.id).status],
        "by_ids": [pet.name for pet in client.pets.list(ids=[made.id, 0])],
        "orders": [found.id == order.id for found in client.orders.list(status="cancelled")],
        "plan": client.account().account.plan,
        "limit": client.quota.limit,
    }


def errors(client: Client, options: dict[str, Any]) -> list[Any]:
    url, long_name = options["url"], "x" * 256
    calls: list[Callable[[], object]] = [
        Client("psk_live_wrong", base_url=url).pets.list,
        lambda: client.pets.create(long_name, 2**63 - 1),
        lambda: client.pets.create_many([NewPet("Rex", 1), NewPet("", 1)]),
        lambda: client.orders.get(2**63 - 1),
        lambda: client.pets.list(limit=101),
    ]
    return [describe(call) for call in calls]


def describe(call: Callable[[], object]) -> Any:
    try:
        return call()
    except ApiError as error:
        fields = sorted(f"{detail.index or ''}{detail.field}" for detail in error.details)
        return [error.status, error.code, fields, bool(error.request_id), error.quota is not None]
    except PetstoreError as error:
        return type(error).__name__


def wait_together(client: Client, options: dict[str, Any]) -> dict[str, int]:
    """Send a request from each thread, with a client of its own."""

    def send(_: int) -> Any:
        with Client(options["key"], base_url=options["url"], **options["client"]) as own:
            return describe(lambda: len(own.pets.list(limit=1)))

    with ThreadPoolExecutor(WORKERS) as pool:
        return Counter(map(str, pool.map(send, range(WORKERS))))


def ignore_errors(client: Client, options: dict[str, Any]) -> dict[str, Any]:
    """Send requests from each thread and ignore the errors; then ask when they end."""

    def insist(_: int) -> int:
        return sum(isinstance(describe(client.pets.list), list) for _ in range(20))

    client.pets.list(limit=1)
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(insist, range(WORKERS)))
    overview = client.account()
    try:
        client.categories.list()
    except RateLimitError as error:
        rejection = error
    late = (rejection.retry_at or datetime.now(UTC)) - overview.quota.day.resets_at
    ban = overview.ban and str(overview.ban.until)
    return {"code": rejection.code, "late": late.total_seconds(), "ban": ban}


def place(client: Client, options: dict[str, Any]) -> Any:
    return client.orders.place(options["pet"]).pet_id == options["pet"]


def time_out(client: Client, options: dict[str, Any]) -> Any:
    return describe(Client(options["key"], base_url=options["url"], **options["client"]).pets.list)


def warn(client: Client, options: dict[str, Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            client.pets.get(options["pet"])
    return [str(warning.message) for warning in caught]


def follow(client: Client, options: dict[str, Any]) -> dict[str, Any]:
    """Follow until `until` events were processed, and the cursor after them was saved."""
    seen: list[int] = []
    saved: list[str] = []
    lost: list[str] = []
    stop = Event()

    def save(cursor: str) -> None:
        saved.append(cursor)
        if len(seen) >= options["until"]:
            stop.set()

    names = {name: options[name] for name in ("type", "since", "cursor") if name in options}
    if "since" in names:
        names["since"] = datetime(2020, 1, 1, tzinfo=UTC)
    for event in client.events.follow(
        **names, interval=0.1, save=save, stop=stop, on_lost=lambda error: lost.append(error.code)
    ):
        seen.append(event.id)
        print(json.dumps(event.order.id if event.order else event.id), file=sys.stderr, flush=True)  # noqa: T201
    return {"seen": seen, "cursor": saved[-1], "lost": lost}


def webhook(client: Client, options: dict[str, Any]) -> Any:
    headers, body, secrets = options["headers"], options["body"], options["secrets"]
    return describe(lambda: str(verify_webhook(headers, body, secrets, now=options["now"]).id))


if __name__ == "__main__":
    name, url, key, *rest = sys.argv[1:]
    options = {"url": url, "key": key} | json.loads(rest[0] if rest else "{}")
    with Client(key, base_url=url) as client:
        json.dump(globals()[name](client, options), sys.stdout)
