"""The event feed: its content, its visibility, and how clients follow it (D40 to D42)."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, InterfaceError, transaction
from prometheus_client import REGISTRY

from accounts.events import sequencing
from accounts.events.sequencing import sequence_all
from accounts.management.commands import clear_events
from accounts.models import Account, Actor, ApiKey, Event, EventType, Feed, OutboxEvent, PlanCode
from accounts.models.events import now_in_microseconds
from accounts.quota.limits import SECOND, to_datetime
from inventory.import_export import add_pets
from inventory.models import Category, Order, Pet
from tests.conftest import OPERATOR, Api, Issue

pytestmark = pytest.mark.django_db

NEXT = re.compile(r'<(?P<url>[^>]+)>; rel="next"')


def next_path(response: Any) -> str:
    """Return the path of the next page, relative to /v1."""
    match = NEXT.fullmatch(response.headers["Link"])
    assert match is not None
    return match["url"].removeprefix(settings.BASE_URL)


def follow(api: Api, path: str = "/events?limit=3") -> Iterator[dict[str, Any]]:
    """Yield every event up to an empty page."""
    sequence_all()
    while events := (response := api.get(path)).json():
        assert response.status_code == 200
        yield from events
        path = next_path(response)


def event_data(api: Api, *kinds: EventType) -> list[tuple[str, Any]]:
    return [(event["type"], event["data"]) for event in follow(api) if not kinds or event["type"] in kinds]


@pytest.fixture
def other(db: None) -> Account:
    return Account.objects.create(name="Other Pets", plan_id=PlanCode.PRO)


def add_outbox_entries(count: int, account_id: int = 0) -> None:
    kind = EventType.ORDER_PLACED if account_id else EventType.PET_CREATED
    OutboxEvent.objects.bulk_create(
        OutboxEvent.build(kind, {"number": number}, account_id) for number in range(count)
    )


def add_events(count: int) -> None:
    add_outbox_entries(count)
    sequence_all()


@pytest.mark.parametrize("fraction", [0, 1, 500_000, 999_999])
def test_json_is_the_same_on_every_database(api: Api, fraction: int) -> None:
    sequence_all()
    data = {"pet": {"name": 'A "quoted" \u00e9\u4f60 \\ one', "categoryId": None, "price": 1.5}}
    last, at = Feed.objects.get(), 1_795_400_000 * SECOND + fraction
    for number in (1, 2):
        row = OutboxEvent.build(EventType.PET_CREATED, data)
        fields = {"type": row.type, "account_id": 0, "data": row.data}
        Event.objects.create(id=last.last_id + number, created_at=at, sequenced_at=at, **fields)
    Feed.objects.update(last_id=last.last_id + 2, last_sequenced_at=at)
    expected = [
        {"id": last.last_id + number, "type": "pet.created", "createdAt": to_datetime(at), "data": data}
        for number in (1, 2)
    ]
    response = api.get("/events?type=pet.created&limit=2")
    assert response.content == orjson.dumps(expected, option=orjson.OPT_UTC_Z)


def test_every_status_of_an_order_and_its_pet_is_an_event(api: Api, pet: Pet) -> None:
    cancelled = api.post("/store/orders", {"petId": pet.pk}).json()
    for _ in range(2):  # The second time, nothing changes.
        assert api("DELETE", f"/store/orders/{cancelled['id']}").status_code == 204
    order = api.post("/store/orders", {"petId": pet.pk}).json()
    row = Order.objects.get(pk=order["id"])
    row.approve(by="staff")
    row.ship(by="staff")
    shipped = api.get(f"/store/orders/{order['id']}").json()
    row.deliver(by="staff")
    row.return_pet(by="staff", reason="Allergic.")
    events = event_data(api)
    steps = [data["order"] for kind, data in events if kind.startswith("order.")]
    assert [kind for kind, _ in events if kind.startswith("order.")] == [
        "order.placed", "order.cancelled",
        "order.placed", "order.approved", "order.shipped", "order.delivered", "order.returned",
    ]  # fmt: skip
    assert steps[:3] == [cancelled, cancelled | {"status": "cancelled"}, order]
    assert steps[4] == shipped
    assert steps[-1] == api.get(f"/store/orders/{order['id']}").json()
    statuses = [data["pet"]["status"] for kind, data in events if kind == "pet.status_changed"]
    assert statuses == ["pending", "available", "pending", "sold", "available"]


def test_pet_has_an_event_for_its_creation_each_public_change_and_its_deletion(api: Api, pet: Pet) -> None:
    created = pet.as_json()
    pet.name = "Marble"
    pet.save()
    pet.save()
    duplicate = Pet.objects.get(pk=pet.pk)
    Pet.objects.filter(pk=pet.pk).update(name="Rex")  # Concurrently.
    updated, deleted = created | {"name": "Marble"}, created | {"name": "Rex"}
    pet.delete()
    duplicate.delete()
    assert event_data(api)[1:] == [
        (f"pet.{verb}", {"pet": data})
        for verb, data in (("created", created), ("updated", updated), ("deleted", deleted))
    ]


@pytest.mark.parametrize(("count", "kinds"), [(1_000, ["pet.created"] * 1_000), (1_001, ["pets.imported"])])
def test_large_import_is_one_event(api: Api, category: Category, count: int, kinds: list[str]) -> None:
    add_pets([{"name": "Pet", "category_id": category.pk, "status": "available"}] * count)
    events = list(follow(api, "/events?limit=100&type=pet"))
    assert [event["type"] for event in events] == kinds
    if count > 1_000:
        ids = Pet.objects.order_by("pk").values_list("pk", flat=True)
        assert events[0]["data"] == {"count": count, "firstId": ids[0], "lastId": ids[count - 1]}


def test_change_that_is_rolled_back_leaves_no_event(api: Api, category: Category, account: Account) -> None:
    row = {"name": "Pet", "category_id": category.pk, "status": "available"}
    with pytest.raises(IntegrityError):
        add_pets([row, row | {"status": "unknown"}])
    with transaction.atomic():
        Pet.objects.create(name="Ghost", category=category)
        transaction.set_rollback(True)
    account.name = "Acme"
    account.save()
    account.assign(PlanCode.PRO)
    (_, (kind, data)) = event_data(api)  # The first is that of the key.
    assert (kind, data["account"]["plan"]) == ("plan.changed", "pro")
    assert data["account"]["id"] == account.public_id


def test_key_does_not_change_if_its_event_fails(
    key: Any, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(ApiKey.objects.values())
    monkeypatch.setattr(OutboxEvent, "save", Mock(side_effect=DatabaseError))
    for change in (
        partial(ApiKey.objects.issue, account), partial(key.narrow, key_scopes=["pets:read"]),
        partial(key.revoke, reason="Lost."), key.rotate,
    ):  # fmt: skip
        with pytest.raises(DatabaseError):
            change(by=OPERATOR)
        assert list(ApiKey.objects.values()) == before


def test_events_of_a_key_contain_no_secret(api: Api, key: Any, account: Account) -> None:
    second, text = ApiKey.objects.issue(account, name="Second", by=OPERATOR)
    third, _ = second.rotate(by=OPERATOR)
    third.revoke(reason="Lost.", by=Actor("tests"))
    events = list(follow(api, "/events?type=key"))
    assert [(event["type"], event["data"]["key"]["id"]) for event in events] == [
        ("key.issued", key.public_id),
        ("key.issued", second.public_id),
        ("key.issued", third.public_id),
        ("key.rotated", second.public_id),
        ("key.revoked", third.public_id),
    ]
    assert all(list(event["data"]["key"]) == ["id", "name", "expiresAt"] for event in events)
    assert text not in str(events)


def test_account_sees_public_events_and_its_own_in_one_order(
    api: Api, account: Account, other: Account, issue: Issue
) -> None:
    other_api = Api(issue(other)[1])
    for _ in range(4):
        add_outbox_entries(1)
        add_outbox_entries(2, account.pk)
        add_outbox_entries(2, other.pk)
    mine, theirs = list(follow(api)), list(follow(other_api))
    assert len([event for event in mine if event["type"] == "order.placed"]) == 8
    for events in (mine, theirs):
        ids = [event["id"] for event in events]
        assert ids == sorted(set(ids))
    shared = [event for event in mine if event in theirs]
    assert {event["type"] for event in shared} == {"pet.created"}
    assert len(shared) == 4


def test_type_selects_one_type_or_all_with_a_prefix(api: Api, account: Account) -> None:
    add_outbox_entries(3)
    add_outbox_entries(2, account.pk)
    OutboxEvent.build(EventType.PETS_IMPORTED, {}).save()
    counts = {"pet.created": 3, "pet": 4, "pets": 1, "order": 2, "order.placed": 2, "quota": 0}
    for kind, count in counts.items():
        events = list(follow(api, f"/events?limit=2&type={kind}"))
        assert len(events) == count, kind
        assert all(event["type"].startswith(kind) for event in events)


def test_since_starts_at_the_first_event_of_that_time(api: Api) -> None:
    add_events(5)
    at = [event["createdAt"] for event in follow(api, "/events?type=pet")]
    for number, since in enumerate(at):
        found = [event["createdAt"] for event in follow(api, f"/events?type=pet&since={since}")]
        assert found == at[number:]
    late = to_datetime(Event.objects.latest("id").created_at + 1)
    assert list(follow(api, f"/events?since={late:%Y-%m-%dT%H:%M:%S.%fZ}")) == []


def test_event_time_is_capped_at_its_sequencing(api: Api) -> None:
    sequence_all()
    began = datetime.now(UTC)
    ahead = round((began + timedelta(days=365)).timestamp() * SECOND)
    OutboxEvent(account_id=0, type=EventType.PET_CREATED, data="{}", created_at=ahead).save()
    add_outbox_entries(1)
    assert len(list(follow(api, f"/events?type=pet&since={began:%Y-%m-%dT%H:%M:%S.%fZ}"))) == 2
    event = Event.objects.latest("created_at")
    assert event.created_at == event.sequenced_at == Feed.objects.get().last_sequenced_at
    assert to_datetime(event.sequenced_at) - began < timedelta(minutes=1)
    assert event.pk == Feed.objects.get().last_id - 1  # The order is that of the outbox.
    first = next(follow(api, f"/events?since={to_datetime(event.created_at):%Y-%m-%dT%H:%M:%S.%fZ}"))
    assert first["id"] == event.pk


def sequence_an_hour_ahead() -> int:
    """Sequence an event with a clock that is ahead; return that time, in microseconds since the epoch."""
    add_events(1)
    ahead = round((datetime.now(UTC) + timedelta(hours=1)).timestamp() * SECOND)
    Event.objects.update(sequenced_at=ahead)
    Feed.objects.update(last_sequenced_at=ahead)
    return ahead


def test_feed_stays_ordered_after_the_clock_was_set_back(api: Api) -> None:
    ahead = sequence_an_hour_ahead()
    path = next_path(api.get("/events"))
    add_outbox_entries(2)
    assert len(list(follow(api, path))) == 2
    *_, before, first, second = (event.sequenced_at for event in Event.objects.order_by("pk"))
    assert (before, first, second) == (ahead, ahead + 1, ahead + 1)
    now = datetime.now(UTC) - timedelta(minutes=1)
    assert len(list(follow(api, f"/events?type=pet&since={now:%Y-%m-%dT%H:%M:%SZ}"))) == 3


def test_sequencing_continues_after_any_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = ("petstore_background_failures_total", {"task": "events"})
    failed = REGISTRY.get_sample_value(*failures) or 0
    poll = Mock(side_effect=[InterfaceError("closed"), ValueError("unexpected"), SystemExit])
    monkeypatch.setattr(sequencing, "sequence_all", poll)
    monkeypatch.setattr(sequencing, "RETRY_SECONDS", 0)
    with pytest.raises(SystemExit):
        sequencing.run_sequencing()
    assert REGISTRY.get_sample_value(*failures) == failed + 2


def test_backlog_is_the_age_of_the_oldest_entry() -> None:
    assert sequencing.measure_backlog() == 0
    add_outbox_entries(2)
    oldest = OutboxEvent.objects.filter(pk=OutboxEvent.objects.earliest("pk").pk)
    oldest.update(created_at=now_in_microseconds() - 90 * SECOND)
    assert 90 <= sequencing.measure_backlog() < 120
    OutboxEvent.objects.update(created_at=now_in_microseconds() + 90 * SECOND)  # By a clock that is ahead.
    assert sequencing.measure_backlog() == 0


def test_empty_page_has_a_next_link_and_stays_304(api: Api, account: Account) -> None:
    sequence_all()
    response = api.get("/events?type=order&limit=7&since=2999-01-01T00:00:00Z")
    assert response.json() == []
    path = next_path(response)
    assert path.startswith("/events?type=order&limit=7&cursor=")
    assert api.get(f"{path}&since=2026-11-23T09:30:00Z").json()["code"] == "invalid_parameter"
    response = api.get(path)
    again = api.get(path, **{"If-None-Match": response.headers["ETag"]})
    assert again.status_code == 304
    assert next_path(again) == path
    add_events(1)
    moved = api.get(path, **{"If-None-Match": response.headers["ETag"]})
    assert (moved.status_code, moved.content) == (304, b"")
    assert next_path(moved) != path
    Feed.objects.update(last_pruned_id=Event.objects.latest("id").pk - 1)
    add_outbox_entries(1, account.pk)
    assert len(list(follow(api, next_path(moved)))) == 1


def test_cursor_from_before_a_restore_gets_410_even_if_its_id_was_reassigned(api: Api) -> None:
    add_events(3)
    backup = Feed.objects.get()
    valid = next_path(api.get("/events"))
    add_events(3)
    reassigned = [next_path(api.get(path)) for path in ("/events", f"/events?limit={backup.last_id + 1}")]
    Event.objects.filter(pk__gt=backup.last_id).delete()
    backup.save()
    assert {api.get(path).json()["code"] for path in reassigned} == {"cursor_expired"}
    add_events(9)
    assert [api.get(path).json()["code"] for path in reassigned] == ["cursor_expired"] * 2
    assert len(list(follow(api, valid))) == 9


def test_reassigned_id_is_detected_after_the_clock_was_set_back(api: Api) -> None:
    sequence_an_hour_ahead()
    backup = Feed.objects.get()
    add_events(1)
    reassigned = next_path(api.get("/events"))
    Event.objects.filter(pk__gt=backup.last_id).delete()
    backup.last_sequenced_at += 1  # By a clock that was still ahead.
    backup.save()
    add_events(1)
    assert api.get(reassigned).json()["code"] == "cursor_expired"


def test_cursor_continues_after_everything_before_it_was_pruned(api: Api) -> None:
    add_events(3)
    path = next_path(api.get("/events"))
    Event.objects.all().update(sequenced_at=1)
    Feed.objects.update(last_sequenced_at=1)
    pruned_path = next_path(api.get("/events"))
    call_command("clear_events")
    add_outbox_entries(2)
    assert len(list(follow(api, pruned_path))) == 2
    assert api.get(path).json()["code"] == "cursor_expired"


def test_since_before_the_oldest_stored_event_is_410(api: Api) -> None:
    old = datetime.now(UTC) - timedelta(days=settings.EVENT_RETENTION_DAYS, minutes=1)
    response = api.get(f"/events?since={old:%Y-%m-%dT%H:%M:%SZ}")
    assert (response.status_code, response.json()["code"]) == (410, "cursor_expired")
    add_events(2)
    at = Event.objects.latest("id").sequenced_at
    Feed.objects.update(last_pruned_id=1, last_pruned_sequenced_at=at)
    for since in (at - SECOND, at):
        response = api.get(f"/events?since={to_datetime(since):%Y-%m-%dT%H:%M:%S.%fZ}")
        assert response.json()["code"] == "cursor_expired"


def test_invalid_parameter_is_400(api: Api) -> None:
    for query in (
        "type=cat", "type=", "type=pet.", "type=Pet", "type=pet&type=order", "since=", "since=yesterday",
        "since=2026-11-23", "since=2026-11-23T09:30:00", "since=2026-13-23T09:30:00Z",
        "limit=0", "limit=101", "cursor=", "cursor=abc",
    ):  # fmt: skip
        response = api.get(f"/events?{query}")
        assert (response.status_code, response.json()["code"]) == (400, "invalid_parameter"), query


@pytest.mark.parametrize("time", ["2026-11-23T09:30:00", "2026-11-23t09:30:00.25"])
def test_unencoded_plus_in_since_is_explained(api: Api, time: str) -> None:
    response = api.get(f"/events?since={time}+01:00")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_parameter")
    assert "%2B" in response.json()["message"]
    assert api.get(f"/events?since={time}%2B01:00".replace("2026", "2099")).status_code == 200
    assert "%2B" not in api.get("/events?since=2026-11-23+09:30:00Z").json()["message"]


def test_events_are_pruned_after_30_days_and_the_feed_has_the_last_one(api: Api, monkeypatch: Any) -> None:
    monkeypatch.setattr(clear_events, "BATCH_SIZE", 2)
    add_events(8)
    path = next_path(api.get("/events?limit=1"))
    old = datetime.now(UTC) - timedelta(days=settings.EVENT_RETENTION_DAYS, minutes=1)
    Event.objects.filter(pk__lte=5).update(sequenced_at=round(old.timestamp() * SECOND))
    add_outbox_entries(3)
    call_command("clear_events")
    assert OutboxEvent.objects.count() == 0  # Other processes rarely get the lock during pruning.
    ids = [event["id"] for event in api.get("/events").json()]
    assert ids == [*range(6, Feed.objects.get().last_id + 1)]
    assert Feed.objects.get().last_pruned_id == 5
    assert api.get(path).json()["code"] == "cursor_expired"
