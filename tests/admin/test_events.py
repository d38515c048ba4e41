"""Admin of events: list, page, and the timeline of an account."""

import json
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.utils import timezone

from accounts.events.sequencing import sequence_all
from accounts.events.warnings import send_quota_warnings
from accounts.models import Account, ApiKey, Event, EventDraft, EventType, Feed, PlanCode
from accounts.quota.limits import to_microseconds
from inventory.models import Category, Order, Pet
from petstore.audit.models import AuditEntry
from tests.conftest import Api
from tests.support.staff import clerk_with, page_url

LIST = "/admin/accounts/event/"


@pytest.fixture
def order(account: Account, category: Category) -> Order:
    """An order of Biscuit; its events are in the feed."""
    pet = Pet.objects.create(name="Biscuit", category=category)
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    sequence_all()
    return order


def list_events(staff: Client, **query: Any) -> list[Event]:
    return list(staff.get(LIST, query).context["cl"].result_list)


def list_types(staff: Client, **query: Any) -> list[str]:
    return [event.type for event in list_events(staff, **query)]


def append_events(count: int, account_id: int = 0, at: int | None = None) -> None:
    """Append events to the feed, at a given time or now."""
    kind = EventType.ORDER_PLACED if account_id else EventType.PET_CREATED
    for number in range(count):
        EventDraft.build(kind, {"number": number}, account_id).save()
    if at is not None:
        EventDraft.objects.update(created_at=at)
    sequence_all()
    if at is not None:
        Event.objects.filter(created_at=at).update(sequenced_at=at)
        Feed.objects.update(last_sequenced_at=at)


# --- The list ------------------------------------------------------------------------------------


def test_list_shows_events_newest_first_with_subject_and_account(staff: Client, order: Order) -> None:
    text = unescape(staff.get(LIST).text)
    kinds = ["pet.status_changed", "order.placed", "pet.created"]
    assert list_types(staff) == list_types(staff, type="nothing") == kinds
    for text_part in (f"order {order.pk}", "pet Biscuit", "Acme Pets", "all accounts"):
        assert text_part in text, text_part
    for kind in kinds:
        assert list_types(staff, type=kind) == [kind]


def test_events_are_filtered_by_time(staff: Client, account: Account) -> None:
    now = timezone.now()
    for days in (10, 3, 0):
        append_events(1, account.pk, to_microseconds(now - timedelta(days=days)))
    old, recent, new = sorted(Event.objects.values_list("pk", flat=True))
    assert [event.pk for event in list_events(staff, days="1")] == [new]
    assert [event.pk for event in list_events(staff, days="7")] == [new, recent]
    assert [event.pk for event in list_events(staff, days="older", type="order.placed")] == [old]
    Feed.objects.update(
        last_pruned_id=old, last_pruned_sequenced_at=to_microseconds(now - timedelta(days=6))
    )
    assert len(list_events(staff, days="7")) == 3  # The start of the period was pruned.
    assert list_events(staff, days="older") == []
    # Ascending order.
    assert [event.pk for event in list_events(staff, o="0", type="order.placed")] == [old, recent, new]


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
    (event,) = list_events(staff, q=key.public_id)
    assert json.loads(event.data)["key"]["id"] == key.public_id
    assert list_events(staff, q=str(event.pk)) == [event]
    for text in ("nothing", "9" * 30, "0", "-1"):
        assert list_events(staff, q=text) == [], text


@pytest.mark.parametrize("ordering", [{}, {"o": "0"}])
@pytest.mark.parametrize(
    "filters", [{}, {"type": "order.placed"}, {"days": "7"}, {"days": "older"}, {"q": "Acme Pets"}]
)
def test_pagination_shows_each_event_once(
    staff: Client, account: Account, filters: dict[str, str], ordering: dict[str, str]
) -> None:
    age = timedelta(days=10 if filters == {"days": "older"} else 3)
    append_events(120, account.pk, to_microseconds(timezone.now() - age))
    query = filters | ordering
    ids: list[int] = []
    after: dict[str, Any] = {}
    while len(page := list_events(staff, **query, **after)) == 50:
        ids += [event.pk for event in page]
        after = {"after": ids[-1]}
    ids += [event.pk for event in page]
    assert ids == sorted(Event.objects.values_list("pk", flat=True), reverse=not ordering)
    previous = list_events(staff, **query, before=ids[50])
    assert [event.pk for event in previous] == ids[:50]


def test_read_only_pages_have_no_history(staff: Client, order: Order, account: Account) -> None:
    event, entry = Event.objects.latest("pk"), AuditEntry.objects.latest("pk")
    read_only = [page_url(event), f"/admin/backoffice/auditentry/{entry.pk}/change/"]
    for path in (*read_only, f"/admin/accounts/account/{account.pk}/change/"):
        offers = f'href="{path.replace("change", "history")}' in staff.get(path).text
        assert offers == (path not in read_only), path


# --- The page ------------------------------------------------------------------------------------


def test_page_shows_the_event_as_clients_receive_it(staff: Client, order: Order, api: Api) -> None:
    sequence_all()
    for event in api.get("/events").json():
        page = staff.get(f"{LIST}{event['id']}/change/")
        assert json.loads(page.context["json"]) == event
        assert list(json.loads(page.context["json"])) == list(event)
        assert page.context["json"] in unescape(page.text)
        assert 'data-copy="event-json"' in page.text


def test_page_links_to_the_subjects(staff: Client, order: Order, key: ApiKey) -> None:
    sequence_all()
    account = f"/admin/accounts/account/{order.account_id}/change/"
    placed = f"/admin/inventory/order/{order.pk}/change/"
    pet = f"/admin/inventory/pet/{order.pet_id}/change/"
    issued = f"/admin/accounts/apikey/{key.pk}/change/"
    expected = {
        "order.placed": [account, placed, pet],
        "pet.created": [pet],
        "key.issued": [account, issued],
    }
    for kind, links in expected.items():
        page = staff.get(page_url(Event.objects.get(type=kind)))
        assert [link for _, _, link in page.context["subjects"]] == links
        assert all(f'href="{link}"' in page.text for link in links)


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


def test_event_is_described(staff: Client, account: Account) -> None:
    imported = {"count": 1_200, "firstId": 301, "lastId": 1_500}
    EventDraft.build(EventType.PETS_IMPORTED, imported).save()
    reached = {"window": "day", "limit": 9, "used": 8, "threshold": 80}
    EventDraft.build(EventType.QUOTA_REACHED, reached, account.pk).save()
    unnamed = {"key": {"id": "abc", "name": "", "expiresAt": None}}
    EventDraft.build(EventType.KEY_ISSUED, unnamed, account.pk).save()
    sequence_all()
    text = unescape(staff.get(LIST).text)
    for text_part in ("1,200 pets, from 301", "80% of the day", "key abc"):
        assert text_part in text


def test_links_need_the_permission_for_the_subject(order: Order) -> None:
    page = clerk_with("view_event").get(page_url(Event.objects.get(type="order.placed")))
    assert page.status_code == 200
    assert page.context["subjects"] == []
    assert f"/admin/accounts/account/{order.account_id}/" not in page.text


# --- The page of an account ----------------------------------------------------------------------


def test_account_timeline_has_warnings_and_links_to_all_events(
    staff: Client, key: ApiKey, account: Account
) -> None:
    other = Account.objects.create(name="Other", plan_id=PlanCode.PRO)
    for customer in (account, other):
        send_quota_warnings({(customer.pk, 1, 80): (100, 80)})
    key.build_event(EventType.KEY_EXPIRING).save()
    sequence_all()
    page = staff.get(f"/admin/accounts/account/{account.pk}/change/")
    timeline = page.context["panels"]["timeline"]
    expected = [f"Expires soon: key {key.name or key.public_id}", "Reached 80% of the day's requests"]
    assert [entry.title for entry in timeline[:2]] == expected
    warning = Event.objects.get(account_id=account.pk, type=EventType.QUOTA_REACHED)
    assert f'href="{page_url(warning)}"' in page.text
    assert f'href="{LIST}?q={account.public_id}"' in page.text
    assert page.text.count(": issued") == 1  # Not repeated by the event.
    assert "key.issued" not in page.text


# --- Permissions ---------------------------------------------------------------------------------


def test_migration_grants_event_access_to_groups_that_see_the_subjects(db: None) -> None:
    migration = import_module("petstore.backoffice.migrations.0007_groups_that_see_events")
    event = Permission.objects.get(codename="view_event")
    auditors, clerks = (Group.objects.create(name=name) for name in ("Auditors", "Clerks"))
    auditors.permissions.set(Permission.objects.filter(codename__in=migration.SEEN_ALREADY))
    clerks.permissions.set(Permission.objects.filter(codename__in=migration.SEEN_ALREADY[1:]))
    event.group_set.clear()
    migration.let_see_events(apps, None)
    groups = event.group_set.order_by("name").values_list("name", flat=True)
    assert list(groups) == ["Auditors", "Owner", "Support", "Viewer"]
