"""Drives the service through the Python client that is generated from its OpenAPI document.

Arguments: base URL, API key, and a category's id. Prints its findings as JSON. `generated_client` is
importable only while the test runs this.
"""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from generated_client import AuthenticatedClient  # type: ignore[import-not-found]
from generated_client.api.account import get_account  # type: ignore[import-not-found]
from generated_client.api.categories import list_categories  # type: ignore[import-not-found]
from generated_client.api.events import list_events  # type: ignore[import-not-found]
from generated_client.api.orders import (  # type: ignore[import-not-found]
    cancel_order,
    get_order,
    list_orders,
    place_order,
)
from generated_client.api.pets import create_pet, create_pets, get_pet, list_pets  # type: ignore[import-not-found]
from generated_client.models import (  # type: ignore[import-not-found]
    Error,
    NewOrder,
    NewPet,
    NewPets,
    OrderStatus,
    Pet,
    PetStatus,
)
from generated_client.types import UNSET  # type: ignore[import-not-found]


def next_cursor(headers: Any) -> Any:
    """The cursor of the next page, or UNSET on the last one."""
    link = re.search(r'<([^>]*)>; rel="next"', headers.get("Link", ""))
    return parse_qs(urlsplit(link[1]).query)["cursor"][0] if link else UNSET


def every_pet(client: Any, status: Any) -> Iterator[Any]:
    """Yield all pets of a status, page by page."""
    cursor = UNSET
    while True:
        page = list_pets.sync_detailed(client=client, status=status, limit=100, cursor=cursor)
        assert page.status_code == 200, page.content
        yield from page.parsed
        cursor = next_cursor(page.headers)
        if cursor is UNSET:
            return


def count(client: Any, status: Any) -> int:
    """Count the pets with a status, and check that ids ascend."""
    ids = []
    for pet in every_pet(client, status):
        assert isinstance(pet, Pet)
        assert pet.status is status
        ids.append(pet.id)
    assert ids == sorted(set(ids))
    return len(ids)


def create_and_fetch(client: Any, base_url: str, category_id: int) -> int:
    """Add a pet, fetch it, and fetch it again with its ETag; return its id."""
    body = NewPet(name="Generated Greyhound", category_id=category_id)
    made = create_pet.sync_detailed(client=client, body=body)
    assert made.status_code == 201, made.content
    assert made.parsed.status is PetStatus.AVAILABLE
    assert made.headers["Location"] == f"{base_url}/pets/{made.parsed.id}"
    found = get_pet.sync_detailed(made.parsed.id, client=client)
    assert found.parsed == made.parsed
    again = get_pet.sync_detailed(made.parsed.id, client=client, if_none_match=found.headers["ETag"])
    assert again.status_code == 304
    batch = create_pets.sync_detailed(client=client, body=NewPets(pets=[body, body]))
    assert [pet.name for pet in batch.parsed] == [body.name] * 2, batch.content
    return int(made.parsed.id)


def order_and_cancel(client: Any, base_url: str, pet_id: int) -> int:
    """Order the pet, twice with one key, list, fetch and cancel the order; return its id."""
    body = NewOrder(pet_id=pet_id)
    made = place_order.sync_detailed(client=client, body=body, idempotency_key=f"order-{pet_id}")
    assert made.status_code == 201, made.content
    order = made.parsed
    assert (order.pet_id, order.quantity, order.status) == (pet_id, 1, OrderStatus.PLACED)
    assert (order.ship_date, order.complete) == (None, False)
    assert made.headers["Location"] == f"{base_url}/store/orders/{order.id}"
    again = place_order.sync_detailed(client=client, body=body, idempotency_key=f"order-{pet_id}")
    assert (again.content, again.headers["Idempotent-Replayed"]) == (made.content, "true")
    taken = place_order.sync(client=client, body=body)
    assert (taken.status, taken.code.value) == (409, "pet_not_available")
    assert get_pet.sync(pet_id, client=client).status is PetStatus.PENDING
    assert order in list_orders.sync(client=client, status=OrderStatus.PLACED)
    assert get_order.sync(order.id, client=client) == order
    assert cancel_order.sync_detailed(order.id, client=client).status_code == 204
    assert get_order.sync(order.id, client=client).status is OrderStatus.CANCELLED
    assert get_pet.sync(pet_id, client=client).status is PetStatus.AVAILABLE
    assert order not in list_orders.sync(client=client, status=OrderStatus.PLACED)
    return int(order.id)


def fetch_account(client: Any) -> None:
    """Fetch the account twice, which is free, and a list in between, which costs one."""
    before = get_account.sync(client=client)
    assert before.ban is None
    assert list_categories.sync_detailed(client=client).status_code == 200
    after = get_account.sync(client=client)
    assert (after.account, after.key.id) == (before.account, before.key.id)
    assert after.quota.day.used == before.quota.day.used + 1


def follow(client: Any, pet_id: int) -> None:
    """Follow the feed until it reports the new pet."""
    cursor, seen, reported = UNSET, [], False
    while not reported:
        page = list_events.sync_detailed(client=client, limit=100, cursor=cursor)
        assert page.status_code == 200, page.content
        seen += [event.id for event in page.parsed]
        created = [event.data for event in page.parsed if event.type_ == "pet.created"]
        reported = any(data["pet"]["id"] == pet_id for data in created)
        cursor = next_cursor(page.headers)
    assert seen == sorted(set(seen))


def rejections(client: Any, anonymous: Any, category_id: int) -> list[str]:
    """Return the status and code of rejections, each parsed as the typed Error."""
    errors = [
        create_pet.sync(client=client, body=NewPet(name=" ", category_id=category_id)),
        list_pets.sync(client=anonymous),
        get_pet.sync(-1, client=client),
        place_order.sync(client=client, body=NewOrder(pet_id=-1)),
        get_order.sync(-1, client=client),
        cancel_order.sync(-1, client=client),
    ]
    assert all(isinstance(error, Error) and error.message for error in errors)
    assert [detail.field for detail in errors[0].details] == ["name"]
    return [f"{error.status} {error.code.value}" for error in errors]


def main(base_url: str, key: str, category_id: int) -> None:
    called: set[str] = set()

    def note(request: Any) -> None:
        path = request.url.path.removeprefix("/v1")
        called.add(f"{request.method} {re.sub(r'/-?[0-9]+$', '/{id}', path)}")

    # A response that the document doesn't declare raises.
    client = AuthenticatedClient(
        base_url=base_url,
        token=key,
        raise_on_unexpected_status=True,
        timeout=30,
        httpx_args={"event_hooks": {"request": [note]}},
    )
    anonymous = AuthenticatedClient(base_url=base_url, token="psk_live_not_a_key")
    categories = list_categories.sync(client=client)
    assert isinstance(categories, list), categories
    assert category_id in [category.id for category in categories]
    report: dict[str, Any] = {
        "found": {status.value: count(client, status) for status in PetStatus},
        "rejections": rejections(client, anonymous, category_id),
        "made": create_and_fetch(client, base_url, category_id),
    }
    report["ordered"] = order_and_cancel(client, base_url, report["made"])
    follow(client, report["made"])
    fetch_account(client)
    report["called"] = sorted(called)
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
