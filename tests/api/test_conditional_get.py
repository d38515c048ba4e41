"""ETag and If-None-Match: D32."""

from typing import Any

import pytest

from accounts.events.sequencing import sequence_all
from accounts.models import Account, EventType, OutboxEvent
from inventory.models import Category, Order, Pet
from tests.conftest import Api


@pytest.fixture(params=["/pets", "/pets/{pet}", "/categories", "/store/orders", "/store/orders/{order}"])
def path(request: Any, pet: Pet, account: Account) -> str:
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    return str(request.param).format(pet=pet.pk, order=order.pk)


def test_every_read_is_cached_privately_and_revalidated(api: Api, anonymous_api: Api, path: str) -> None:
    first = api.get(path)
    tag, left = first.headers["ETag"], int(first.headers["X-RateLimit-Remaining"])
    for costs, method in enumerate(("GET", "HEAD"), 1):
        response = api(method, path, If_None_Match=tag)
        assert (response.status_code, response.content, response.headers["ETag"]) == (304, b"", tag)
        assert "Content-Type" not in response.headers
        assert int(response.headers["X-RateLimit-Remaining"]) == left - costs
    Pet.objects.update(name="Pickle")
    Category.objects.update(description="Changed.")
    Order.objects.update(status="approved")
    changed = api.get(path, If_None_Match=tag)
    assert (changed.status_code, changed.headers["ETag"] != tag) == (200, True)
    assert (changed.headers["Cache-Control"], changed.headers["Vary"]) == (
        "private, no-cache", "Authorization"
    )  # fmt: skip
    assert anonymous_api.get(path).headers["Cache-Control"] == "no-store"


def test_if_none_match_lists_strong_or_weak_tags(api: Api) -> None:
    tag = api.get("/categories").headers["ETag"]
    for sent in (f"W/{tag}", f'"other", {tag}', "*", f'"a" , W/{tag} '):
        assert api.get("/categories", If_None_Match=sent).status_code == 304
    for sent in ('"other"', "", "nonsense", '"', "W/", "é"):
        assert api.get("/categories", If_None_Match=sent).status_code == 200


def add_pet(account: Account) -> Pet:
    return Pet.objects.create(name="Biscuit", category=Category.objects.earliest("id"))


def add_category(account: Account) -> None:
    Category.objects.create(name=f"Category {Category.objects.count()}")


def add_order(account: Account) -> None:
    Order.objects.place(account_id=account.pk, pet_id=add_pet(account).pk, by="test")


def add_event(account: Account) -> None:
    OutboxEvent.build(EventType.ORDER_PLACED, {}, account.pk).save()
    sequence_all()


LISTS = {"/pets": add_pet, "/categories": add_category, "/store/orders": add_order, "/events": add_event}


@pytest.mark.parametrize("path", LISTS)
def test_full_last_page_has_a_new_etag_once_its_link_changes(api: Api, account: Account, path: str) -> None:
    LISTS[path](account)
    full = f"{path}?limit={len(api.get(f'{path}?limit=100').json())}"
    before = api.get(full)
    if path == "/events":  # Every page of the feed has a link, which an event of another account moves.
        full, before = path, api.get(path)
        add_event(Account(pk=account.pk + 1))
    else:
        LISTS[path](account)
    after = api.get(full, If_None_Match=before.headers["ETag"])
    assert (after.status_code, after.content) == (200, before.content)
    assert 'rel="next"' in after.headers["Link"] != before.headers.get("Link")


@pytest.mark.parametrize("path", LISTS)
def test_304_of_a_page_has_its_link(api: Api, account: Account, path: str) -> None:
    for _ in range(2):
        LISTS[path](account)
    page = api.get(f"{path}?limit=1")
    again = api.get(f"{path}?limit=1", If_None_Match=page.headers["ETag"])
    assert (again.status_code, again.headers["Link"]) == (304, page.headers["Link"])
    head = api("HEAD", f"{path}?limit=1")
    assert {head.headers[name] == page.headers[name] for name in ("ETag", "Link")} == {True}
