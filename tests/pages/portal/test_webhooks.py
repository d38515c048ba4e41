"""Members manage the webhooks of their account, and follow their attempts (D51 to D57)."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from accounts.events.sequencing import sequence_all
from accounts.models import Account, Event, EventType, OutboxEvent, WebhookAttempt
from accounts.models import WebhookEndpoint as Endpoint
from accounts.models.webhooks import DEFAULT_TYPES
from accounts.portal import webhook_forms
from accounts.webhooks.sender import Failure
from accounts.webhooks.targets import CheckedURL, check_url
from tests.conftest import OPERATOR
from tests.support.members import get_errors

URL = "https://93.184.216.34/hook?token=hidden"
FORM = {"url": URL, "description": "Warehouse", "types": ["order", "key.revoked"]}


@pytest.fixture
def endpoint(account: Account) -> Endpoint:
    return Endpoint.objects.add(account, url=URL, description="Warehouse", by=OPERATOR)


def path(of: Account | Endpoint, page: str = "") -> str:
    if isinstance(of, Endpoint):
        return path(of.account, f"{of.public_id}/{page}")
    return f"/account/{of.public_id}/webhooks/{page}"


def log(endpoint: Endpoint, **values: Any) -> WebhookAttempt:
    defaults = {"event_id": 7, "event_type": "order.placed", "status": 503, "error": Failure.STATUS}
    return endpoint.attempt_log.create(**defaults | {"response": "Down", "milliseconds": 12} | values)


def list_actions(endpoint: Endpoint) -> list[str]:
    return [entry.action for entry in endpoint.audit_entries.order_by("pk")]


# --- Adding and changing


def test_added_webhook_gets_the_chosen_events_and_a_test(kim: Client, account: Account) -> None:
    form = kim.get(path(account, "add/")).context["form"]
    assert form["types"].initial == DEFAULT_TYPES
    response = kim.post(path(account, "add/"), FORM | {"send_test": "on"})
    endpoint = Endpoint.objects.get()
    assert response.headers["Location"] == path(endpoint)
    assert (endpoint.account, endpoint.url, endpoint.types) == (account, URL, "order key.revoked")
    assert endpoint.attempt_log.get().is_pending
    assert list_actions(endpoint) == ["added", "tested"]
    assert endpoint.audit_entries.first().actor_name == "kim"  # type: ignore[union-attr]
    assert "Pending" in kim.get(path(endpoint)).text


INVALID = [
    ("url", "https://127.0.0.1/", "public addresses"), ("url", "", "required"), ("types", [], "required"),
    ("url", "https://kim:secret@93.184.216.34/", "user name or password"),
    ("types", ["order.lost"], "one of the available choices"), ("description", "x" * 256, "at most 255"),
]  # fmt: skip


def test_invalid_values_are_reported_and_change_nothing(kim: Client, endpoint: Endpoint) -> None:
    for page in (path(endpoint.account, "add/"), path(endpoint, "change/")):
        for field, value, error in INVALID:
            assert error in get_errors(kim.post(page, FORM | {field: value}))
    assert Endpoint.objects.values_list("url", "description").get() == (URL, "Warehouse")


def test_account_is_not_locked_while_names_are_looked_up(
    kim: Client, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, account: Account
) -> None:
    locked: list[bool] = []
    is_locked = False
    original = Account.lock

    def lock(row: Account, **options: Any) -> Account:
        nonlocal is_locked
        is_locked = True
        return original(row, **options)

    def check(url: str) -> CheckedURL:
        locked.append(is_locked)
        return check_url(url)

    monkeypatch.setattr(Account, "lock", lock)
    monkeypatch.setattr(webhook_forms, "check_url", check)
    for page, url in ((path(account, "add/"), URL), (path(endpoint, "change/"), f"{URL}new")):
        is_locked = False
        assert kim.post(page, FORM | {"url": url}).status_code == 302
    assert locked == [False, False]


def test_unchanged_url_is_not_looked_up_again(
    kim: Client, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(url: str) -> CheckedURL:
        raise ValidationError({"url": "The host name of this URL can't be resolved."})

    monkeypatch.setattr(webhook_forms, "check_url", fail)
    kim.post(path(endpoint, "change/"), FORM)
    endpoint.refresh_from_db()
    assert (endpoint.url, endpoint.types) == (URL, "order key.revoked")


# --- The secret


def test_secret_is_in_the_response_to_a_post_only_and_recorded(kim: Client, endpoint: Endpoint) -> None:
    secret = endpoint.reveal_secret(by=OPERATOR)
    form = kim.get(path(endpoint, "reveal-secret/"))
    assert secret not in form.text
    page = kim.post(path(endpoint, "reveal-secret/"))
    assert secret in unescape(page.text)
    assert "no-store" in page["Cache-Control"]
    assert secret not in unescape(kim.get(path(endpoint)).text)
    assert list_actions(endpoint)[-2:] == ["secret_revealed"] * 2
    assert endpoint.audit_entries.first().actor_name == "kim"  # type: ignore[union-attr]


@pytest.mark.parametrize(("overlap", "count"), [("24", 2), ("0", 1)])
def test_old_secret_signs_a_day_or_not(kim: Client, endpoint: Endpoint, overlap: str, count: int) -> None:
    kim.post(path(endpoint, "rotate-secret/"), {"overlap": overlap})
    endpoint.refresh_from_db()
    assert endpoint.secret_version == 2
    assert len(endpoint.get_secrets(timezone.now())) == count
    assert ("signs as well until" in kim.get(path(endpoint)).text) == (count == 2)


# --- Disabling and repeating


def test_members_cannot_enable_what_staff_disabled_or_read_why(kim: Client, endpoint: Endpoint) -> None:
    endpoint.disable(by=OPERATOR, reason="Floods their host", by_staff=True)
    page = kim.get(path(endpoint)).text
    assert "We have disabled this webhook." in page
    assert "Floods" not in page
    assert "Ask us to enable it" in get_errors(kim.post(path(endpoint, "enable/")))
    assert "Ask us to enable it" in get_errors(kim.post(path(endpoint, "send-test/")))


def test_replay_needs_a_time_in_the_past(kim: Client, endpoint: Endpoint) -> None:
    for since in ("", "x", "0001-01-01T00:00", "9999-12-31T23:59:59-12:00", "9999-12-31"):
        assert get_errors(kim.post(path(endpoint, "replay/"), {"since": since})), since


def test_removed_webhook_is_gone(kim: Client, endpoint: Endpoint) -> None:
    log(endpoint)
    assert kim.post(path(endpoint, "remove/")).headers["Location"] == path(endpoint.account)
    assert not Endpoint.objects.exists()
    assert not WebhookAttempt.objects.exists()


# --- Attempts


def test_attempt_shows_the_request_the_response_and_the_next_try(kim: Client, endpoint: Endpoint) -> None:
    OutboxEvent.build(EventType.ORDER_PLACED, {"order": {"id": 5}}, endpoint.account_id).save()
    sequence_all()
    event = Event.objects.latest("pk")
    next_at = timezone.now() + timedelta(minutes=2)
    attempt = log(endpoint, event_id=event.pk, response="<b>Down</b>", next_attempt_at=next_at)
    text = kim.get(path(endpoint)).text
    assert f"{next_at:%Y-%m-%d %H:%M:%S}" in text
    page = kim.get(path(endpoint, f"attempts/{attempt.pk}/")).text
    for part in (f"POST {URL}", f"webhook-id: evt_{event.pk}", '"data":{"order":{"id":5}}', "Status 503"):
        assert part in unescape(page)
    assert "&lt;b&gt;Down&lt;/b&gt;" in page


def test_attempts_are_listed_page_by_page_and_parked_ones_alone(kim: Client, endpoint: Endpoint) -> None:
    attempts = [log(endpoint, event_id=number, parked=number == 3) for number in range(1, 31)]
    first = kim.get(path(endpoint))
    assert [row.event_id for row, *_ in first.context["attempts"]] == list(range(30, 5, -1))
    second = kim.get(path(endpoint), {"before": attempts[5].pk})
    assert [row.event_id for row, *_ in second.context["attempts"]] == [5, 4, 3, 2, 1]
    parked = kim.get(path(endpoint), {"parked": ""})
    assert [row.event_id for row, *_ in parked.context["attempts"]] == [3]


def test_gap_is_named_and_not_sent_again(kim: Client, endpoint: Endpoint) -> None:
    attempt = log(endpoint, kind="lost", status=None, error="", event_type="", event_id=40)
    assert "up to 40" in kim.get(path(endpoint)).text
    assert kim.post(path(endpoint, f"attempts/{attempt.pk}/")).status_code == 404


def test_event_is_sent_again_with_the_same_id(kim: Client, endpoint: Endpoint) -> None:
    OutboxEvent.build(EventType.ORDER_PLACED, {}, endpoint.account_id).save()
    sequence_all()
    attempt = log(endpoint, event_id=Event.objects.latest("pk").pk, parked=True)
    kim.post(path(endpoint, f"attempts/{attempt.pk}/"))
    again = endpoint.attempt_log.first()
    assert again is not None
    assert (again.kind, again.message_id, again.is_pending) == ("again", attempt.message_id, True)
    kim.post(path(endpoint, f"attempts/{log(endpoint, kind='test', event_id=0).pk}/"))
    assert endpoint.attempt_log.filter(kind="test", due_at__isnull=False).count() == 1


def test_reused_id_does_not_show_an_event_of_another_account(kim: Client, endpoint: Endpoint) -> None:
    OutboxEvent.build(EventType.ORDER_PLACED, {"order": {"id": 5}}, endpoint.account_id + 1).save()
    sequence_all()
    attempt = log(endpoint, event_id=Event.objects.latest("pk").pk)
    page = kim.get(path(endpoint, f"attempts/{attempt.pk}/"))
    assert "The event is no longer stored." in page.text
    assert page.context["body"] is None
    page = kim.post(path(endpoint, f"attempts/{attempt.pk}/"), follow=True)
    assert "no longer stored" in unescape(page.text)


# --- Who may do what


def test_members_removed_during_the_lookup_add_nothing(
    kim: Client, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(url: str) -> CheckedURL:
        account.memberships.get().remove(by=OPERATOR)
        return check_url(url)

    monkeypatch.setattr(webhook_forms, "check_url", check)
    assert kim.post(path(account, "add/"), FORM).status_code == 404
    assert not Endpoint.objects.exists()
