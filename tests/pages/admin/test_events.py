"""Admin of events: list and page."""

import json
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from itertools import product
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.utils import timezone

from accounts.events.sequencing import sequence_all
from accounts.events.warnings import send_quota_warnings
from accounts.models import Account, ApiKey, Event, EventType, Feed, OutboxEvent
from accounts.quota.limits import to_microseconds
from inventory.models import Category, Order, Pet
from tests.conftest import OPERATOR
from tests.support.staff import clerk_with, list_rows, page_url

LIST = "/admin/accounts/event/"


@pytest.fixture
def order(account: Account, category: Category) -> Order:
    """An order of Biscuit; its events are in the feed."""
    pet = Pet.objects.create(name="Biscuit", category=category)
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    sequence_all()
    return order


def list_types(staff: Client, **query: Any) -> list[str]:
    return [event.type for event in list_rows(staff, LIST, **query)]


def append_events(count: int, account_id: int = 0, at: int | None = None) -> None:
    """Append events to the feed, at a given time or now."""
    kind = EventType.ORDER_PLACED if account_id else EventType.PET_CREATED
    for number in range(count):
        OutboxEvent.build(kind, {"number": number}, account_id).save()
    if at is not None:
        OutboxEvent.objects.update(created_at=at)
    sequence_all()
    if at is not None:
        Event.objects.filter(created_at=at).update(sequenced_at=at)
        Feed.objects.update(last_sequenced_at=at)


def test_events_are_filtered_by_time(staff: Client, account: Account) -> None:
    now = timezone.now()
    for days in (10, 3, 0):
        append_events(1, account.pk, to_microseconds(now - timedelta(days=days)))
    old, recent, new = sorted(Event.objects.values_list("pk", flat=True))
    assert [event.pk for event in list_rows(staff, LIST, days="1")] == [new]
    assert [event.pk for event in list_rows(staff, LIST, days="7")] == [new, recent]
    assert [event.pk for event in list_rows(staff, LIST, days="older", type="order.placed")] == [old]
    pruned_at = to_microseconds(now - timedelta(days=6))
    Feed.objects.update(last_pruned_id=old, last_pruned_sequenced_at=pruned_at)
    assert len(list_rows(staff, LIST, days="7")) == 3  # The start of the period was pruned.
    assert list_rows(staff, LIST, days="older") == []
    # Ascending order.
    assert [event.pk for event in list_rows(staff, LIST, o="0", type="order.placed")] == [old, recent, new]


def test_events_are_found_by_account_key_and_number(
    staff: Client, order: Order, account: Account, issue: Callable[..., Any]
) -> None:
    key, secret = issue(name="Tills")
    issue(name="Others")
    sequence_all()
    for text in (account.public_id, "acme pets"):
        assert list_types(staff, q=text) == ["key.issued", "key.issued", "order.placed"], text
        assert list_types(staff, q=text, type="order.placed") == ["order.placed"]
    assert staff.get(LIST, {"q": secret})["Location"] == f"{LIST}?q={key.public_id}"
    (event,) = list_rows(staff, LIST, q=key.public_id)
    assert json.loads(event.data)["key"]["id"] == key.public_id
    assert list_rows(staff, LIST, q=str(event.pk)) == [event]
    for text in ("nothing", "9" * 30, "0", "-1"):
        assert list_rows(staff, LIST, q=text) == [], text


def test_pagination_shows_each_event_once(
    staff: Client, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin.site.get_model_admin(Event), "list_per_page", 5)
    append_events(6, account.pk, to_microseconds(timezone.now() - timedelta(days=10)))
    filters = [{}, {"type": "order.placed"}, {"days": "older"}, {"q": "Acme Pets"}]
    for query, ordering in product(filters, ({}, {"o": "0"})):
        first = [event.pk for event in list_rows(staff, LIST, **query, **ordering)]
        rest = [event.pk for event in list_rows(staff, LIST, **query, **ordering, after=first[-1])]
        ids = Event.objects.values_list("pk", flat=True)
        assert (len(first), first + rest) == (5, sorted(ids, reverse=not ordering))
        before = list_rows(staff, LIST, **query, **ordering, before=rest[0])
        assert [event.pk for event in before] == first


def test_event_is_described_and_links_subjects_that_may_be_viewed(
    staff: Client, order: Order, account: Account
) -> None:
    OutboxEvent.build(EventType.PETS_IMPORTED, {"count": 1_200, "firstId": 301, "lastId": 1_500}).save()
    send_quota_warnings({(account.pk, 1, 80): (100, 80)})
    sequence_all()
    for path in (LIST, page_url(account)):
        assert "80% of the day" in unescape(staff.get(path).text)
    path = page_url(Event.objects.get(type="order.placed"))
    links = [link for _, _, link in staff.get(path).context["subjects"]]
    assert links == [page_url(row) for row in (account, order, order.pet)]
    assert clerk_with("view_event").get(path).context["subjects"] == []


def test_event_of_a_key_links_account_and_key(staff: Client, key: ApiKey) -> None:
    sequence_all()
    key.revoke(reason="Lost", by=OPERATOR)
    sequence_all()
    page = staff.get(page_url(Event.objects.get(type="key.revoked")))
    assert [link for _, _, link in page.context["subjects"]] == [page_url(key.account), page_url(key)]


def test_deleted_subjects_have_no_link(staff: Client, account: Account, category: Category) -> None:
    pet = Pet.objects.create(name="Biscuit", category=category)
    sequence_all()
    pet.delete()
    page = staff.get(page_url(Event.objects.earliest("pk")))
    assert (page.status_code, page.context["subjects"]) == (200, [])
    append_events(1, account.pk)
    account.delete()
    text = unescape(staff.get(LIST, {"type": "order.placed"}).text)
    assert "deleted account" in text
    assert "all accounts" not in text
