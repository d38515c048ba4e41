"""The loop that delivers events: order, retries, parking, leases (D52, D54, D56, D57)."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from threading import Event as Signal
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import standardwebhooks
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from prometheus_client import REGISTRY

from accounts.events import feed
from accounts.management.commands import clear_events
from accounts.models import Account, Event, EventType, Feed, OutboxEvent, PlanCode, WebhookAttempt
from accounts.models import WebhookEndpoint as Endpoint
from accounts.usage import write_behind
from accounts.webhooks import backlog, delivery
from accounts.webhooks.backlog import PAGE_SIZE
from accounts.webhooks.delivery import Dispatcher, find_due_endpoints, find_requested
from accounts.webhooks.outcomes import DELAYS, JITTER, blames_event, get_delay
from accounts.webhooks.sender import Failure, Outcome
from petstore.audit.models import AuditEntry
from tests.api.test_webhooks import add, emit
from tests.conftest import COMMITTED, OPERATOR
from tests.support.concurrency import other_connection, run_concurrently
from tests.support.servers import wait_until
from tests.support.skips import NEEDS_POSTGRESQL

pytestmark = pytest.mark.django_db

Respond = Callable[[str, dict[str, Any]], Outcome]
OK, DOWN, BAD = Outcome(status=200), Outcome(Failure.STATUS, 503), Outcome(Failure.STATUS, 400)


class World:
    """A dispatcher with a clock of its own, whose receivers respond as the test says."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.time = timezone.now()
        self.received: dict[str, list[Any]] = defaultdict(list)
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.respond: Respond = lambda url, event: OK
        self.dispatcher = self.start()

    def start(self, slots: int = 16) -> Dispatcher:
        return Dispatcher(slots, connect=self.connect, now=lambda: self.time)

    def connect(self, url: str, policy: Any) -> Any:
        return SimpleNamespace(post=partial(self.post, url), close=lambda: None)

    def post(self, url: str, body: bytes, headers: dict[str, str], *, keep: bool) -> Outcome:
        event = orjson.loads(body)
        self.headers.append(headers)
        self.bodies.append(body)
        self.received[url].append(event["id"])
        return self.respond(url, event)

    def emit(self, count: int = 1) -> list[int]:
        """Add events of the account to the feed, and return their IDs."""
        return emit(*[self.account.pk] * count)

    def advance(self, **time: float) -> None:
        self.time += timedelta(**time)

    def deliver(self, dispatcher: Dispatcher | None = None) -> None:
        """Run until nothing is due."""
        dispatcher = dispatcher or self.dispatcher
        self.time = max(self.time, timezone.now())
        while True:
            dispatcher._next_poll = 0
            dispatcher.step()
            while dispatcher._in_flight or dispatcher._has_due:
                dispatcher.step()
            if not find_due_endpoints(self.time).exists() and not find_requested(self.time).exists():
                return


@pytest.fixture
def world(account: Account) -> World:
    return World(account)


@pytest.fixture
def endpoint(account: Account) -> Endpoint:
    return add(account, types=["order"])


def attempts(endpoint: Endpoint) -> list[Any]:
    return list(endpoint.attempt_log.order_by("pk").values_list("event_id", "status", "error"))


def reread(endpoint: Endpoint) -> Endpoint:
    endpoint.refresh_from_db()
    return endpoint


# --- Deliveries


def test_each_endpoint_gets_the_events_it_wants_in_order(account: Account, world: World) -> None:
    other = Account.objects.create(name="Other Pets", plan_id=PlanCode.PRO)
    orders, pets, foreign = (
        add(of, types=types, url=f"https://93.184.216.34/{len(types)}/{of.pk}")
        for of, types in ((account, ["order"]), (account, ["order", "pet"]), (other, ["order"]))
    )
    ids = emit(account.pk, 0, other.pk, account.pk, 0)
    world.deliver()
    expected = {orders: [ids[0], ids[3]], pets: [ids[0], ids[1], ids[3], ids[4]], foreign: [ids[2]]}
    for endpoint, own in expected.items():
        assert world.received[endpoint.url] == own
        assert attempts(endpoint) == [(event_id, 200, "") for event_id in own]
        assert (reread(endpoint).position, endpoint.next_attempt_at, endpoint.lease) == (ids[-1], None, "")


def test_backlog_of_many_pages_keeps_its_order(endpoint: Endpoint, world: World) -> None:
    ids = world.emit(2 * PAGE_SIZE + 3)
    world.deliver()
    assert world.received[endpoint.url] == ids
    more = world.emit()
    world.deliver()
    assert world.received[endpoint.url] == ids + more


def test_event_and_its_signature_verify_with_the_standard_library(endpoint: Endpoint, world: World) -> None:
    secrets = {"old": endpoint.reveal_secret(by=OPERATOR)}
    world.emit()
    world.deliver()
    for name, overlap in (("new", {}), ("newest", {"overlap": timedelta()})):
        endpoint.rotate_secret(by=OPERATOR, **overlap)
        secrets[name] = endpoint.reveal_secret(by=OPERATOR)
        world.emit()
        world.deliver()
    accepted = [
        [name for name, secret in secrets.items() if verifies(secret, body, headers)]
        for body, headers in zip(world.bodies, world.headers, strict=True)
    ]
    assert accepted == [["old"], ["old", "new"], ["newest"]]
    headers = world.headers[0]
    assert headers["webhook-id"] == f"evt_{world.received[endpoint.url][0]}"
    assert headers["User-Agent"] == f"Petstore-Webhooks/{settings.SPECTACULAR_SETTINGS['VERSION']}"
    assert headers["Content-Type"] == "application/json"


def verifies(secret: str, body: bytes, headers: dict[str, str]) -> bool:
    try:
        verified = standardwebhooks.Webhook(secret).verify(body.decode(), headers)
    except standardwebhooks.WebhookVerificationError:
        return False
    return bool(verified == orjson.loads(body))


def test_retry_is_signed_anew_with_the_same_id(endpoint: Endpoint, world: World) -> None:
    world.emit()
    world.respond = lambda url, event: DOWN
    world.deliver()
    world.advance(minutes=1)
    world.deliver()
    first, second = world.headers
    assert first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) >= int(first["webhook-timestamp"]) + 60
    assert first["webhook-signature"] != second["webhook-signature"]


def test_secret_that_ends_during_an_attempt_signs_no_later_event(endpoint: Endpoint, world: World) -> None:
    ids = world.emit(3)
    begin(world)
    reread(endpoint).rotate_secret(by=OPERATOR, overlap=timedelta())
    world.deliver()
    new = endpoint.reveal_secret(by=OPERATOR)
    verified = [verifies(new, *sent) for sent in zip(world.bodies, world.headers, strict=True)]
    assert (world.received[endpoint.url], verified) == (ids, [False, True, True])


def test_without_its_pepper_nothing_is_sent(endpoint: Endpoint, world: World, settings: Any) -> None:
    (event_id,) = world.emit()
    settings.API_KEY_PEPPERS = {99: b"other"}
    world.deliver()
    assert world.headers == []
    assert attempts(endpoint) == [(event_id, None, "secret")]


# --- Failures


def test_unavailable_endpoint_is_sent_the_same_event_until_it_is_back(
    endpoint: Endpoint, world: World
) -> None:
    first, second = world.emit(2)
    world.respond = lambda url, event: DOWN
    for failures in range(1, 9):
        world.deliver()
        assert len(world.headers) == failures == reread(endpoint).attempts
        assert endpoint.next_attempt_at is not None
        wait = endpoint.next_attempt_at - world.time
        base = DELAYS[min(failures, 6) - 1]
        assert timedelta(seconds=base) <= wait <= timedelta(seconds=base * JITTER)
        assert endpoint.attempt_log.latest("pk").next_attempt_at == endpoint.next_attempt_at
        world.advance(seconds=wait.total_seconds() - 0.001)
        world.deliver()
        assert len(world.headers) == failures
        world.advance(seconds=0.001)
    assert endpoint.describe_state(world.time)[0] == "failing"
    world.respond = lambda url, event: OK
    world.deliver()
    assert world.received[endpoint.url] == [first] * 9 + [second]
    assert (reread(endpoint).attempts, endpoint.failing_since) == (0, None)


def test_some_statuses_are_the_fault_of_the_event_and_all_else_is_that_of_the_endpoint() -> None:
    for status in (302, 400, 404, 407, 422, 428, 499):
        assert blames_event(Outcome(Failure.STATUS, status))
    for status in (408, 429, 500, 503):
        assert not blames_event(Outcome(Failure.STATUS, status))
    for failure in Failure:
        assert not blames_event(Outcome(failure))


@pytest.mark.parametrize(("retry_after", "wait"), [(None, 5), (0, 5), (100, 100), (10**9, 3600)])
def test_retry_after_counts_up_to_an_hour(retry_after: int | None, wait: int) -> None:
    delay = get_delay(1, Outcome(Failure.STATUS, 503, retry_after=retry_after))
    assert wait <= delay.total_seconds() <= wait * JITTER


def test_rejected_event_is_parked_after_six_attempts_however_long_they_take(
    endpoint: Endpoint, world: World
) -> None:
    poisoned, after = world.emit(2)
    rejected = Outcome(Failure.STATUS, 400, "no", retry_after=3600)
    world.respond = lambda url, event: rejected if event["id"] == poisoned else OK
    while after not in world.received[endpoint.url]:
        world.deliver()
        world.advance(minutes=75)
    assert world.received[endpoint.url] == [poisoned] * 6 + [after]
    (parked,) = endpoint.attempt_log.filter(parked=True)
    assert (parked.event_id, parked.status, parked.response) == (poisoned, 400, "no")
    assert parked.next_attempt_at is None
    assert reread(endpoint).failing_since is None


def test_sending_a_parked_event_again_settles_it(endpoint: Endpoint, world: World) -> None:
    (event_id,) = world.emit()
    world.respond = lambda url, event: BAD
    for _ in range(7):
        world.deliver()
        world.advance(hours=1)
    assert endpoint.attempt_log.filter(parked=True).count() == 1
    failing_since = reread(endpoint).failing_since
    endpoint.send_again(event_id, by=OPERATOR)
    world.deliver()
    assert endpoint.attempt_log.filter(parked=True).count() == 1
    world.respond = lambda url, event: OK
    again = endpoint.send_again(event_id, by=OPERATOR)
    world.deliver()
    again.refresh_from_db()
    assert (again.error, again.is_pending, again.kind) == ("", False, "again")
    assert endpoint.attempt_log.filter(parked=True).count() == 0
    assert reread(endpoint).failing_since == failing_since  # It does not count for the health.
    assert len({headers["webhook-id"] for headers in world.headers}) == 1


def test_gone_endpoint_is_disabled_at_once(endpoint: Endpoint, world: World) -> None:
    world.emit(2)
    world.respond = lambda url, event: Outcome(Failure.STATUS, 410)
    for _ in range(2):
        world.deliver()
        world.advance(hours=1)
    assert len(world.headers) == 1
    assert reread(endpoint).disabled_by == "gone"
    assert endpoint.position < world.received[endpoint.url][0]
    assert OutboxEvent.objects.get(type="webhook.disabled").account_id == world.account.pk
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.actor_name) == ("disabled", "the service")
    assert entry.after["disabled_by"] == "gone"


def test_endpoint_is_warned_about_and_disabled_after_five_days(endpoint: Endpoint, world: World) -> None:
    (event_id,) = world.emit()
    world.respond = lambda url, event: DOWN
    started_at, states = world.time, []
    for hours in (0, 0.9, 1.5, 23.9, 25.5, 119.9, 121.5):
        world.time = started_at + timedelta(hours=hours)
        world.deliver()
        warnings = OutboxEvent.objects.filter(type=EventType.WEBHOOK_FAILING).count()
        states.append((warnings, reread(endpoint).disabled_by))
    assert states == [(0, ""), (0, ""), (1, ""), (1, ""), (2, ""), (2, ""), (2, "failing")]
    world.respond = lambda url, event: OK
    endpoint.enable(by=OPERATOR)
    world.deliver()
    assert world.received[endpoint.url][-1] == event_id
    assert (reread(endpoint).failing_since, endpoint.disabled_at) == (None, None)


# --- Pauses


def test_suspension_does_not_count_as_failing(endpoint: Endpoint, world: World) -> None:
    world.respond = lambda url, event: DOWN
    world.emit()
    world.deliver()
    world.account.suspend(reason="Unpaid", by=OPERATOR)
    world.advance(days=6)
    world.account.lift_suspension(reason="Paid", by=OPERATOR)
    world.deliver()
    assert (reread(endpoint).attempts, endpoint.disabled_at) == (1, None)
    assert endpoint.failing_since == world.time


def test_suspension_stops_after_the_event_in_flight(endpoint: Endpoint, world: World) -> None:
    ids = world.emit(2)
    begin(world)
    world.account.suspend(reason="Unpaid", by=OPERATOR)
    world.deliver()
    assert world.received[endpoint.url] == ids[:1]
    world.account.lift_suspension(reason="Paid", by=OPERATOR)
    world.deliver()
    assert world.received[endpoint.url] == ids


def test_disabled_endpoint_gets_its_backlog_and_pruned_events_are_logged_as_lost_once(
    endpoint: Endpoint, world: World
) -> None:
    endpoint.disable(by=OPERATOR)
    lost = world.emit(2)
    prune_all()
    stored = world.emit(2)
    world.deliver()
    assert world.headers == []
    endpoint.enable(by=OPERATOR)
    world.respond = lambda url, event: DOWN if len(world.bodies) == 1 else OK
    world.deliver()
    world.advance(minutes=1)
    world.deliver()
    kinds = list(endpoint.attempt_log.order_by("pk").values_list("kind", "event_id"))
    assert kinds == [("lost", lost[-1]), *(("delivery", event_id) for event_id in (stored[0], *stored))]


def test_idle_endpoint_loses_nothing_to_pruning(endpoint: Endpoint, world: World) -> None:
    world.deliver()
    emit(0, world.account.pk + 1)
    prune_all()
    (stored,) = world.emit()
    world.deliver()
    assert attempts(endpoint) == [(stored, 200, "")]


def prune_all() -> None:
    long_ago = Feed.objects.get().last_sequenced_at - 40 * 24 * 3600 * 10**6
    Event.objects.update(sequenced_at=long_ago)
    sum(clear_events.prune_expired())


def test_replay_during_an_attempt_outlasts_its_outcome(endpoint: Endpoint, world: World) -> None:
    ids = world.emit(3)
    world.deliver()
    more = world.emit()
    begin(world)
    reread(endpoint).replay(after=ids[0], by=OPERATOR)
    world.deliver()
    assert world.received[endpoint.url] == ids + more + ids[1:] + more


def test_test_is_an_event_without_position_which_is_sent_while_disabled(
    endpoint: Endpoint, world: World
) -> None:
    endpoint.disable(by=OPERATOR)
    attempt = endpoint.send_test(by=OPERATOR)
    world.deliver()
    attempt.refresh_from_db()
    assert (attempt.status, attempt.is_pending, attempt.event_type) == (200, False, "webhook.ping")
    assert world.headers[0]["webhook-id"] == f"evt_test_{attempt.pk}"
    assert verifies(endpoint.reveal_secret(by=OPERATOR), world.bodies[0], world.headers[0])
    event = orjson.loads(world.bodies[0])
    assert (event["id"], event["type"]) == (0, "webhook.ping")
    assert event["data"] == {"webhook": {"id": endpoint.public_id, "description": ""}}
    assert event.keys() == {"id", "type", "createdAt", "data"}
    endpoint.send_test(by=OPERATOR)
    endpoint.disable(by=OPERATOR, by_staff=True, reason="Abuse")
    world.deliver()
    assert len(world.headers) == 1


def test_events_pruned_during_the_query_are_lost_rather_than_an_error(
    endpoint: Endpoint, world: World, monkeypatch: Any
) -> None:
    ids = world.emit(3)
    fetch = feed.fetch_events

    def prune_and_fetch(*args: Any) -> Any:
        monkeypatch.undo()
        Event.objects.filter(pk__lt=ids[2]).delete()
        Feed.objects.update(last_pruned_id=ids[1])
        return fetch(*args)

    monkeypatch.setattr(feed, "fetch_events", prune_and_fetch)
    page = backlog.fetch_page(endpoint)
    assert ([message.event_id for message in page.messages], page.lost_until) == ([ids[2]], ids[1])


def test_requested_attempts_of_an_endpoint_are_made_one_at_a_time(endpoint: Endpoint, world: World) -> None:
    requested = [endpoint.send_test(by=OPERATOR) for _ in range(3)]
    hangs = Signal()
    world.respond = lambda url, event: OK if hangs.wait(5) else DOWN
    world.time = timezone.now()
    for _ in range(2):
        world.dispatcher.poll()
        world.dispatcher.take(16)
        assert len(world.dispatcher._in_flight) == 1
    hangs.set()
    world.deliver()
    assert [headers["webhook-id"] for headers in world.headers] == [row.message_id for row in requested]


def test_keys_in_a_response_are_not_stored(endpoint: Endpoint, world: World) -> None:
    key = f"psk_live_{'a' * 14}_{'b' * 32}"
    world.respond = lambda url, event: Outcome(status=200, text=f"<p>{key}</p>")
    world.emit()
    world.deliver()
    assert endpoint.attempt_log.get().response == f"<p>psk_live_{'a' * 14}_***</p>"


def test_draining_takes_nothing_and_waits_without_spinning(
    endpoint: Endpoint, world: World, monkeypatch: Any
) -> None:
    monkeypatch.setattr(delivery, "is_draining", lambda: True)
    world.emit()
    world.dispatcher.step()
    assert world.dispatcher._next_poll > time.monotonic()
    assert not world.received


def test_event_pruned_before_it_is_sent_again_is_said(endpoint: Endpoint, world: World) -> None:
    (event_id,) = world.emit()
    attempt = endpoint.send_again(event_id, by=OPERATOR)
    Event.objects.all().delete()
    world.deliver()
    attempt.refresh_from_db()
    assert (attempt.is_pending, attempt.error) == (False, "event")


def test_endpoint_with_unreadable_events_stops_no_other(
    endpoint: Endpoint, world: World, monkeypatch: Any
) -> None:
    """For example because a later version has stored a type that this one does not know."""
    monkeypatch.setattr(delivery, "RETRY_SECONDS", 0)
    monkeypatch.setattr(delivery, "connection", SimpleNamespace(close=lambda: None))
    other = add(world.account, types=["order"], url="https://93.184.216.34/other")
    ids = world.emit()
    Endpoint.objects.filter(pk=endpoint.pk).update(types="later")
    for _ in range(3):
        begin(world)
        world.dispatcher._run_safely(partial(world.dispatcher.collect, len(world.dispatcher._in_flight)))
        world.advance(seconds=21)
    assert world.received == {other.url: ids}


def test_removed_endpoint_ends_its_attempts(endpoint: Endpoint, world: World) -> None:
    world.emit(2)
    begin(world)
    endpoint.remove(by=OPERATOR)
    world.deliver()
    assert len(world.headers) == 1


# --- Leases, slots and shutdown


@pytest.fixture
def held(world: World) -> Iterator[Signal]:
    """Attempts wait until the test lets them finish."""
    released = Signal()
    world.respond = lambda url, event: OK if released.wait(10) else DOWN
    yield released
    released.set()


def begin(world: World, dispatcher: Dispatcher | None = None) -> None:
    dispatcher = dispatcher or world.dispatcher
    world.time = max(world.time, timezone.now())
    dispatcher._next_poll = 0
    dispatcher.step()


def test_no_other_process_takes_what_is_in_flight_unless_its_own_was_killed(
    endpoint: Endpoint, world: World, held: Signal
) -> None:
    ids = world.emit(2)
    killed = world.start()
    begin(world, killed)
    held.set()
    world.advance(seconds=19)
    begin(world)
    assert world.received[endpoint.url] == ids[:1]
    world.advance(seconds=2)
    world.deliver()
    assert world.received[endpoint.url] == [ids[0], *ids]
    killed.collect(1)  # It was only suspended: its outcome no longer counts.
    assert reread(endpoint).position == ids[-1]
    assert killed._in_flight == set()


def test_sleeping_endpoint_is_woken_although_the_process_that_saw_it_died(
    endpoint: Endpoint, world: World
) -> None:
    world.deliver()
    other = world.start()
    other.poll()
    ids = world.emit()
    other.poll()
    Endpoint.objects.update(next_attempt_at=None)  # As the killed process has left it.
    other.poll()
    assert reread(endpoint).next_attempt_at is None
    other._next_scan = 0
    world.deliver(other)
    assert world.received[endpoint.url] == ids


def test_event_during_the_last_attempt_is_sent(endpoint: Endpoint, world: World, held: Signal) -> None:
    ids = world.emit()
    begin(world)
    ids += world.emit()
    begin(world)  # It sees the new event while the endpoint is taken.
    held.set()
    world.deliver()
    assert world.received[endpoint.url] == ids


def test_slow_attempts_give_their_slots_to_others(account: Account, world: World, monkeypatch: Any) -> None:
    released = Signal()
    urls = [f"https://93.184.216.34/{number}" for number in range(6)]
    for url in urls:
        add(account, url=url, types=["order"])
    world.respond = lambda url, event: OK if url >= urls[2] or released.wait(10) else DOWN
    world.emit()
    dispatcher = world.start(slots=2)
    begin(world, dispatcher)
    assert dispatcher.count_free_slots() == 0
    monkeypatch.setattr(delivery, "SLOW_SECONDS", 0.05)
    while not all(world.received[url] for url in urls):
        begin(world, dispatcher)
    assert not released.is_set()
    monkeypatch.setattr(delivery, "MAX_SLOW", 1)
    assert dispatcher.count_free_slots() == 0
    released.set()
    world.deliver(dispatcher)


@pytest.mark.parametrize(("milliseconds", "at_once"), [(2000, 1), (600, 2)])
def test_slow_endpoint_lets_others_go_first_after_a_second(
    account: Account, world: World, milliseconds: int, at_once: int
) -> None:
    slow, other = (
        add(account, types=["order"], url=f"https://93.184.216.34/{name}") for name in ("slow", "other")
    )
    order = []

    def respond(url: str, event: dict[str, Any]) -> Outcome:
        order.append(url)
        if url == other.url:
            return OK
        world.advance(milliseconds=milliseconds)
        return Outcome(status=200, milliseconds=milliseconds)

    world.respond = respond
    ids = world.emit(3)
    Endpoint.objects.filter(pk=slow.pk).update(next_attempt_at=world.time - timedelta(seconds=1))
    world.deliver(world.start(slots=1))
    assert order == [slow.url] * at_once + [other.url] * 3 + [slow.url] * (3 - at_once)
    assert world.received[slow.url] == ids


def test_stopping_finishes_only_what_is_in_flight(endpoint: Endpoint, world: World, held: Signal) -> None:
    ids = world.emit(2)
    begin(world)
    world.dispatcher.request_stop()
    held.set()
    while world.dispatcher._in_flight:
        world.dispatcher.collect(1)
    assert world.received[endpoint.url] == ids[:1]
    assert (reread(endpoint).position, endpoint.lease) == (ids[0], "")
    world.deliver(world.start())
    assert world.received[endpoint.url] == ids


def test_what_does_not_finish_is_released_to_others(endpoint: Endpoint, world: World, held: Signal) -> None:
    ids = world.emit()
    attempt = endpoint.send_test(by=OPERATOR)
    begin(world)
    world.dispatcher.release()
    assert set(find_due_endpoints(world.time)) == {endpoint}
    assert set(find_requested(world.time)) == {attempt}
    held.set()
    world.deliver(world.start())
    assert sorted(world.received[endpoint.url]) == [0, 0, *ids, *ids]


def test_idle_loop_makes_a_query(endpoint: Endpoint, world: World, django_assert_num_queries: Any) -> None:
    world.deliver()
    world.dispatcher._next_poll = 0
    with django_assert_num_queries(1):
        world.dispatcher.step()


def test_deliveries_to_many_endpoints_are_recorded_in_three_statements(
    account: Account, world: World, django_assert_num_queries: Any
) -> None:
    for number in range(5):
        add(account, types=["order"], url=f"https://93.184.216.34/{number}")
    world.emit(2)
    begin(world)
    finished = {task for _ in range(5) if (task := world.dispatcher._finished.get(timeout=10))}
    with django_assert_num_queries(5):  # With the savepoint.
        assert len(world.dispatcher.record(finished)) == 5


def test_event_of_one_account_wakes_no_other(account: Account, world: World) -> None:
    other = Account.objects.create(name="Other Pets", plan_id=PlanCode.PRO)
    endpoints = [add(of) for of in (account, other)]
    world.deliver()
    world.emit()
    world.dispatcher.poll()
    assert [reread(each).next_attempt_at is not None for each in endpoints] == [True, False]


def test_sender_that_raises_is_a_failed_attempt(endpoint: Endpoint, world: World) -> None:
    (event_id,) = world.emit()

    def fail(url: str, event: Any) -> Outcome:
        raise RuntimeError

    world.respond = fail
    world.deliver()
    assert attempts(endpoint) == [(event_id, None, "response")]


# --- The log and the metrics


def test_attempts_are_kept_for_30_days_and_parked_ones_in_any_number(
    endpoint: Endpoint, monkeypatch: Any
) -> None:
    monkeypatch.setattr("accounts.models.webhook_attempts.MAX_ATTEMPTS", 3)
    for number in range(6):
        WebhookAttempt.objects.create(endpoint=endpoint, event_id=number, parked=number == 1)
    old = timezone.now() - timedelta(days=31)
    WebhookAttempt.objects.create(endpoint=endpoint, event_id=9, created_at=old)
    write_behind.clean_up()
    assert [row[0] for row in attempts(endpoint)] == [1, 3, 4, 5]


def test_metrics_count_attempts_and_measure_delay_and_backlog(endpoint: Endpoint, world: World) -> None:
    def read(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(f"petstore_webhook{name}", labels) or 0

    def measure() -> list[float]:
        backlog.measure()
        return [read(name) for name in ("s_failing", "_delay_seconds", "_backlog_seconds")]

    for outcome, response in (("success", OK), ("status", DOWN)):
        before = read("_attempts_total", outcome=outcome)
        world.respond = lambda url, event, response=response: response  # type: ignore[misc]
        world.emit()
        world.deliver()
        assert read("_attempts_total", outcome=outcome) == before + 1
    hour_ago = timezone.now() - timedelta(hours=1)
    Event.objects.update(created_at=hour_ago.timestamp() * 10**6)
    Endpoint.objects.update(next_attempt_at=hour_ago)
    failing, delay, age = measure()
    assert failing == 1
    assert 3600 <= min(delay, age) <= max(delay, age) < 3700
    Endpoint.objects.update(next_attempt_at=None, failing_since=None, attempts=0, first_attempt_at=None)
    assert measure() == [0, 0, 0]


@NEEDS_POSTGRESQL
@COMMITTED
@pytest.mark.parametrize("verb", ["suspend", "record"])
def test_suspending_and_recording_lock_endpoints_in_the_same_order(
    verb: str, endpoint: Endpoint, world: World, held: Signal
) -> None:
    """Otherwise they would deadlock."""
    other = add(world.account, types=["order"], url="https://93.184.216.34/other")
    world.emit()
    begin(world)
    held.set()
    wait_until(lambda: world.dispatcher._finished.qsize() == 2)
    # An update of an indexed column, after which the row is stored after that of the other.
    Endpoint.objects.filter(pk=endpoint.pk).update(next_attempt_at=world.time)
    suspend = partial(world.account.suspend, reason="Not paid.", by=OPERATOR)

    def lock(pk: int) -> None:
        with transaction.atomic():
            Endpoint.objects.select_for_update(nowait=True).get(pk=pk)

    with other_connection() as start, transaction.atomic():
        Endpoint.objects.select_for_update().get(pk=endpoint.pk)
        start(suspend if verb == "suspend" else partial(world.dispatcher.collect, 1))
        run_concurrently(partial(lock, other.pk))
