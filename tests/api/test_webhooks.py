"""Webhook endpoints: what members and staff can do with them, and what they are sent (D51 to D57)."""

import base64
import hmac
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import orjson
import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db.models import F
from django.utils import timezone

from accounts.events.sequencing import sequence_all
from accounts.management.commands.list_peppers import count_webhooks_by_pepper
from accounts.models import Account, Event, EventType, Feed, OutboxEvent, PlanCode, WebhookAttempt
from accounts.models import WebhookEndpoint as Endpoint
from accounts.models.webhooks import DEFAULT_TYPES, MAX_ENDPOINTS, MAX_PENDING
from accounts.webhooks import backlog
from accounts.webhooks.backlog import build_message, fetch_page, get_oldest_time, replay_since
from accounts.webhooks.sender import Failure
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR

pytestmark = pytest.mark.django_db

URL = "https://93.184.216.34/hook"


def add(account: Account, **options: Any) -> Endpoint:
    values: dict[str, Any] = {"url": URL, "by": OPERATOR}
    return Endpoint.objects.add(account, **values | options)


@pytest.fixture
def endpoint(account: Account) -> Endpoint:
    return add(account)


def emit(*account_ids: int, kind: EventType = EventType.ORDER_PLACED) -> list[int]:
    """Add an event of each account to the feed (0: a public one), and return their IDs."""
    sequence_all()
    first = Feed.objects.get().last_id + 1
    for account_id in account_ids:
        OutboxEvent.build(kind if account_id else EventType.PET_CREATED, {}, account_id).save()
    sequence_all()
    return list(Event.objects.filter(pk__gte=first).order_by("pk").values_list("pk", flat=True))


def fail(endpoint: Endpoint) -> None:
    """Let the endpoint have failed for an hour."""
    now = timezone.now()
    endpoint.attempts, endpoint.first_attempt_at = 5, now - timedelta(hours=1)
    endpoint.failing_since, endpoint.next_attempt_at = endpoint.first_attempt_at, now + timedelta(hours=1)
    endpoint.lease = "other"
    endpoint.save()


def get_next_ids(endpoint: Endpoint) -> list[int]:
    return [message.event_id for message in fetch_page(endpoint).messages]


# --- Endpoints


def test_new_endpoint_gets_the_private_events_from_now_on(account: Account) -> None:
    emit(account.pk)
    endpoint = add(account)
    own, _, _ = emit(account.pk, account.pk + 1, 0)
    assert get_next_ids(endpoint) == [own]
    assert set(endpoint.type_names) == set(DEFAULT_TYPES)
    assert endpoint.describe_state(timezone.now()) == ("active", "Up to date")


def test_chosen_types_may_be_public_and_prefixes_cover_their_types(account: Account) -> None:
    endpoint = add(account, types=["pet", "pet.created", "pets.imported", "key.issued"])
    assert endpoint.types == "pet key.issued"
    public, _, issued = emit(0, account.pk) + emit(account.pk, kind=EventType.KEY_ISSUED)
    assert get_next_ids(endpoint) == [public, issued]


def test_invalid_values_are_rejected_by_field(account: Account, endpoint: Endpoint) -> None:
    invalid: list[dict[str, Any]] = [
        {"types": ["order.lost"]}, {"types": []}, {"url": "https://127.0.0.1/"}, {"url": "http://93.184.216.34/"},
        {"url": "https://93.184.216.34/#x"}, {"url": f"{URL}{'x' * 2000}"}, {"description": "x" * 256},
    ]  # fmt: skip
    for options in invalid:
        for save in (partial(add, account), partial(endpoint.change, by=OPERATOR)):
            with pytest.raises(ValidationError) as raised:
                save(**options)
            assert raised.value.message_dict.keys() == options.keys()
    assert Endpoint.objects.values_list("url", "types").get() == (URL, endpoint.types)


def test_no_value_contains_a_key(account: Account, key: Any) -> None:
    for options in ({"url": f"{URL}?key={key.text}"}, {"description": key.text}):
        with pytest.raises(ValidationError, match="API key"):
            add(account, **options)


def test_account_has_at_most_ten_endpoints(account: Account) -> None:
    endpoints = [add(account) for _ in range(MAX_ENDPOINTS)]
    with pytest.raises(ValidationError, match="at most 10"):
        add(account)
    endpoints[0].remove(by=OPERATOR)
    add(account)
    add(Account.objects.create(name="Other Pets", plan_id=PlanCode.PRO))


def test_change_of_the_url_is_tried_at_once(endpoint: Endpoint) -> None:
    fail(endpoint)
    endpoint.change(description="New", by=OPERATOR)
    assert (endpoint.attempts, endpoint.lease) == (5, "other")
    endpoint.change(url="https://93.184.216.34/new", types=["key"], by=OPERATOR)
    assert (endpoint.attempts, endpoint.lease, endpoint.types) == (0, "", "key")
    assert endpoint.next_attempt_at is not None
    assert endpoint.next_attempt_at <= timezone.now()


def test_disabled_endpoint_keeps_its_position_and_continues(account: Account, endpoint: Endpoint) -> None:
    fail(endpoint)
    endpoint.disable(by=OPERATOR)
    ids = emit(account.pk, account.pk)
    assert endpoint.describe_state(timezone.now()) == ("disabled", "Disabled")
    endpoint.enable(by=OPERATOR)
    assert get_next_ids(endpoint)[-2:] == ids
    assert (endpoint.attempts, endpoint.failing_since, endpoint.disabled_by) == (0, None, "")
    sequence_all()
    events = Event.objects.filter(account_id=account.pk, type__startswith="webhook").order_by("pk")
    assert [event.type for event in events] == ["webhook.disabled", "webhook.enabled"]
    webhook = orjson.loads(events[0].data)["webhook"]
    assert webhook.keys() == {"id", "description", "failingSince"}
    assert webhook["id"] == endpoint.public_id


def test_members_cannot_enable_what_staff_disabled(endpoint: Endpoint) -> None:
    with pytest.raises(ValidationError, match="Say why"):
        endpoint.disable(by=OPERATOR, by_staff=True)
    endpoint.disable(by=OPERATOR)
    endpoint.disable(reason="Sends abuse", by=OPERATOR, by_staff=True)
    for act in (endpoint.enable, endpoint.disable, endpoint.send_test):
        with pytest.raises(ValidationError):
            act(by=OPERATOR)
    endpoint.enable(by=OPERATOR, by_staff=True)
    assert endpoint.disabled_at is None


def test_webhooks_that_fail_for_an_hour_or_that_no_member_disabled_need_attention(
    endpoint: Endpoint,
) -> None:
    now = timezone.now()
    for minutes in (59, 61):
        Endpoint.objects.update(failing_since=now - timedelta(minutes=minutes))
        assert Endpoint.objects.needing_attention(now).exists() == (minutes > 60)
    for origin in Endpoint.DisabledBy:
        Endpoint.objects.update(disabled_at=now, disabled_by=origin)
        assert Endpoint.objects.needing_attention(now).exists() == (origin != "member")


def test_suspended_account_can_only_reduce(account: Account, endpoint: Endpoint) -> None:
    (event_id,) = emit(account.pk)
    account.suspend(reason="Unpaid", by=OPERATOR)
    rejected: list[Callable[[], Any]] = [
        partial(add, account),
        partial(endpoint.change, description="x", by=OPERATOR),
        partial(endpoint.rotate_secret, by=OPERATOR),
        partial(endpoint.replay, after=0, by=OPERATOR),
        partial(endpoint.send_again, event_id, by=OPERATOR),
        partial(endpoint.send_test, by=OPERATOR),
    ]
    for act in rejected:
        with pytest.raises(ValidationError, match="suspended"):
            act()
    endpoint.refresh_from_db()
    assert endpoint.describe_state(timezone.now())[0] == "suspended"
    endpoint.disable(by=OPERATOR)
    endpoint.remove(by=OPERATOR)


def test_actions_are_audited_without_url_and_secret(account: Account) -> None:
    endpoint = add(account, url=f"{URL}/t0ken")
    (event_id,) = emit(account.pk)
    secret = endpoint.reveal_secret(by=OPERATOR)
    endpoint.change(url=f"{URL}/t0ken2", by=OPERATOR)
    endpoint.change(description="", by=OPERATOR)  # Changes nothing.
    endpoint.rotate_secret(by=OPERATOR)
    endpoint.disable(reason="Noisy", by=OPERATOR)
    endpoint.enable(by=OPERATOR)
    endpoint.send_again(event_id, by=OPERATOR)
    endpoint.send_test(by=OPERATOR)
    entries = list(endpoint.audit_entries)
    endpoint.remove(by=OPERATOR)
    entries.insert(0, AuditEntry.objects.latest("pk"))
    actions = ["added", "secret_revealed", "changed", "secret_rotated", "disabled", "enabled"]
    assert [entry.action for entry in reversed(entries)] == [*actions, "sent_again", "tested", "deleted"]
    assert entries[-5].reason == "Noisy"
    stored = repr(list(AuditEntry.objects.values()))
    assert "93.184.216.34" in stored
    assert "t0ken" not in stored
    assert secret not in stored


# --- The secret


def test_secret_can_be_shown_again_and_differs_for_each_endpoint_and_version(account: Account) -> None:
    one, other = add(account), add(account)
    secrets = {one.reveal_secret(by=OPERATOR), one.reveal_secret(by=OPERATOR)}
    assert len(secrets) == 1
    assert len(base64.b64decode(min(secrets).removeprefix("whsec_"))) == 32
    secrets.add(other.reveal_secret(by=OPERATOR))
    one.rotate_secret(by=OPERATOR)
    assert len(secrets | {one.reveal_secret(by=OPERATOR)}) == 3


def test_both_secrets_sign_until_the_overlap_ends(endpoint: Endpoint) -> None:
    now = timezone.now()
    (old,) = endpoint.get_secrets(now)
    endpoint.rotate_secret(by=OPERATOR)
    new, still_old = endpoint.get_secrets(now + timedelta(hours=23))
    assert still_old == old
    assert endpoint.get_secrets(now + timedelta(hours=25)) == [new]
    endpoint.rotate_secret(by=OPERATOR, overlap=timedelta())
    assert len(endpoint.get_secrets(timezone.now())) == 1
    assert endpoint.get_secrets(timezone.now()) != [new]


def test_secret_keeps_its_pepper_until_it_is_rotated(endpoint: Endpoint, settings: Any) -> None:
    (old,) = endpoint.get_secrets(timezone.now())
    settings.API_KEY_PEPPERS = settings.API_KEY_PEPPERS | {77: b"new"}
    endpoint.refresh_from_db()
    assert endpoint.get_secrets(timezone.now()) == [old]
    endpoint.rotate_secret(by=OPERATOR)
    settings.API_KEY_PEPPERS = {77: b"new"}
    (new,) = endpoint.get_secrets(timezone.now())
    assert new == hmac.digest(b"new", f"webhook:{endpoint.public_id}:2".encode(), "sha256")
    settings.API_KEY_PEPPERS = {78: b"newer"}
    assert endpoint.get_secrets(timezone.now()) == []
    with pytest.raises(ValidationError, match="Rotate it"):
        endpoint.reveal_secret(by=OPERATOR)


# --- Replay and requested attempts


def test_replay_moves_the_position_back(account: Account, endpoint: Endpoint) -> None:
    ids = emit(account.pk, account.pk)
    since = timezone.now()
    ids += emit(account.pk)
    endpoint.position = ids[-1]
    fail(endpoint)
    for after, expected in ((since, ids[2:]), (since - timedelta(days=1), ids)):
        replay_since(endpoint, after, by=OPERATOR)
        assert get_next_ids(endpoint) == expected
    assert (endpoint.attempts, endpoint.lease) == (0, "")
    with pytest.raises(ValidationError, match="Nothing has been delivered"):
        replay_since(endpoint, timezone.now(), by=OPERATOR)


def test_events_pruned_or_of_others_cannot_be_sent_again(account: Account, endpoint: Endpoint) -> None:
    lost, foreign = emit(account.pk, account.pk + 1)
    Event.objects.filter(pk=lost).delete()
    Feed.objects.update(last_pruned_id=lost, last_pruned_sequenced_at=F("last_sequenced_at"))
    for act in (
        lambda: replay_since(endpoint, timezone.now() - timedelta(days=9), by=OPERATOR),
        lambda: endpoint.replay(after=0, by=OPERATOR),
        lambda: endpoint.send_again(lost, by=OPERATOR),
        lambda: endpoint.send_again(foreign, by=OPERATOR),
    ):
        with pytest.raises(ValidationError, match="no longer stored"):
            act()


def test_endpoint_without_events_advances_to_the_feeds_end(account: Account, endpoint: Endpoint) -> None:
    newest = emit(account.pk + 1, 0)[-1]
    assert fetch_page(endpoint) == backlog.Page([], newest, None)
    assert get_oldest_time(endpoint) is None
    before = timezone.now()
    (event_id,) = emit(account.pk)
    oldest = get_oldest_time(endpoint)
    assert oldest is not None
    assert before <= oldest <= timezone.now()
    assert fetch_page(endpoint).end == event_id


def test_event_is_sent_as_the_feed_has_it(account: Account, endpoint: Endpoint, api: Any) -> None:
    (event_id,) = emit(account.pk)
    (event,) = (event for event in api.get("/events?type=order").json() if event["id"] == event_id)
    (message,) = (each for each in fetch_page(endpoint).messages if each.event_id == event_id)
    assert orjson.loads(message.body) == event
    attempt = endpoint.send_again(event_id, by=OPERATOR)
    assert attempt.is_pending
    assert build_message(attempt) == message
    Event.objects.all().delete()
    assert build_message(attempt) is None


def test_few_requested_attempts_may_be_pending(endpoint: Endpoint) -> None:
    for _ in range(MAX_PENDING):
        endpoint.send_test(by=OPERATOR)
    with pytest.raises(ValidationError, match="pending"):
        endpoint.send_test(by=OPERATOR)
    WebhookAttempt.objects.filter(endpoint=endpoint).update(due_at=None)
    endpoint.send_test(by=OPERATOR)


def test_peppers_count_the_secrets_that_depend_on_them(endpoint: Endpoint, settings: Any) -> None:
    number = endpoint.pepper_number
    settings.API_KEY_PEPPERS = settings.API_KEY_PEPPERS | {77: b"new"}
    counts = [count_webhooks_by_pepper()]
    for overlap in (timedelta(hours=24), timedelta()):
        endpoint.rotate_secret(by=OPERATOR, overlap=overlap)
        counts.append(count_webhooks_by_pepper())
    assert counts == [{number: 1}, {77: 1, number: 1}, {77: 1}]
    settings.API_KEY_PEPPERS = {number: b"old"}
    with pytest.raises(SystemExit):
        call_command("list_peppers")


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"status": 204}, ("up", "204")), ({"error": "status", "status": 500}, ("down", "500")),
        ({"error": "timeout"}, ("down", Failure.TIMEOUT.label)),
        ({"due_at": timezone.now()}, ("degraded", "Pending")),
    ],
)  # fmt: skip
def test_outcome_of_an_attempt_is_described(values: Any, outcome: tuple[str, str]) -> None:
    assert WebhookAttempt(**values).describe_outcome() == outcome
