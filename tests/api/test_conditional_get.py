"""ETag and If-None-Match: D32."""

from typing import Any

import pytest

from accounts.events.sequencing import sequence_all
from accounts.models import Account, EventDraft, EventType
from inventory.models import Category, Order, Pet
from tests.conftest import Api


@pytest.fixture(params=["/pets", "/pets/{pet}", "/categories", "/store/orders", "/store/orders/{order}"])
def path(request: Any, pet: Pet, account: Account) -> str:
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    return str(request.param).format(pet=pet.pk, order=order.pk)


@pytest.mark.parametrize("form", ["{0}", "W/{0}", '"other", {0}', "*", '"a" , W/{0} '])
def test_matching_etag_gets_304_and_counts(api: Api, path: str, form: str) -> None:
    first = api.get(path)
    tag, left = first.headers["ETag"], int(first.headers["X-RateLimit-Remaining"])
    for costs, method in enumerate(("GET", "HEAD"), 1):
        response = api(method, path, If_None_Match=form.format(tag))
        assert (response.status_code, response.content, response.headers["ETag"]) == (304, b"", tag)
        assert int(response.headers["X-RateLimit-Remaining"]) == left - costs


@pytest.mark.parametrize("sent", ['"other"', "", "nonsense", '"', "W/", "é"])
def test_other_etag_gets_the_full_response(api: Api, path: str, sent: str) -> None:
    assert api.get(path, If_None_Match=sent).status_code == 200


def test_changed_row_has_another_etag(api: Api, path: str) -> None:
    tag = api.get(path).headers["ETag"]
    Pet.objects.update(name="Pickle")
    Category.objects.update(description="Changed.")
    Order.objects.update(status="approved")
    response = api.get(path, If_None_Match=tag)
    assert response.status_code == 200
    assert response.headers["ETag"] != tag


def test_responses_are_cached_privately(api: Api, anonymous_api: Api, path: str) -> None:
    response = api.get(path)
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert response.headers["Vary"] == "Authorization"
    assert anonymous_api.get(path).headers["Cache-Control"] == "no-store"


def add_pet(account: Account) -> Pet:
    return Pet.objects.create(name="Biscuit", category=Category.objects.earliest("id"))


def add_category(account: Account) -> None:
    Category.objects.create(name=f"Category {Category.objects.count()}")


def add_order(account: Account) -> None:
    Order.objects.place(account_id=account.pk, pet_id=add_pet(account).pk, by="test")


def add_event(account: Account) -> None:
    EventDraft.build(EventType.ORDER_PLACED, {}, account.pk).save()
    sequence_all()


LISTS = {"/pets": add_pet, "/categories": add_category, "/store/orders": add_order}
FEED = {"/events": add_event}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", LISTS)
def test_full_last_page_has_a_new_etag_once_a_row_follows(
    api: Api, account: Account, path: str, method: str
) -> None:
    LISTS[path](account)
    full = f"{path}?limit={len(api.get(f'{path}?limit=100').json())}"
    before = api(method, full)
    LISTS[path](account)
    after = api(method, full, If_None_Match=before.headers["ETag"])
    assert (after.status_code, after.headers["ETag"] != before.headers["ETag"]) == (200, True)
    assert "Link" not in before.headers
    assert 'rel="next"' in after.headers["Link"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_feed_page_has_a_new_etag_once_its_link_moves(api: Api, account: Account, method: str) -> None:
    add_event(account)
    before = api(method, "/events")
    EventDraft.build(EventType.ORDER_PLACED, {}, account.pk + 1).save()
    sequence_all()
    after = api(method, "/events", If_None_Match=before.headers["ETag"])
    assert (after.status_code, after.content) == (200, before.content)
    assert after.headers["Link"] != before.headers["Link"]


@pytest.mark.parametrize(("path", "add"), (LISTS | FEED).items())
def test_304_of_a_page_has_its_link(api: Api, account: Account, path: str, add: Any) -> None:
    for _ in range(2):
        add(account)
    page = api.get(f"{path}?limit=1")
    again = api.get(f"{path}?limit=1", If_None_Match=page.headers["ETag"])
    assert (again.status_code, again.headers["Link"]) == (304, page.headers["Link"])
    head = api("HEAD", f"{path}?limit=1")
    assert {head.headers[name] == page.headers[name] for name in ("ETag", "Link")} == {True}
