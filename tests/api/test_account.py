"""`GET /v1/account`: the account and its quota, free of charge (D39)."""

import ipaddress
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.keys import key_format
from accounts.keys.identity import KeyRejectionReason
from accounts.models import Account, ApiKey, DailyUsage, MinuteLoad, PlanCode, Refusal
from accounts.quota import store
from accounts.quota.headers import format_headers
from accounts.quota.limits import DAY, HOUR, MINUTE, PEEKS_PER_MINUTE, SECOND, SKEW, RateLimitDecision
from accounts.usage import write_behind
from tests.conftest import OPERATOR, Api
from tests.support.quota import Sender, ban_by_now, parse
from tests.support.thorough import times

LIMITS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "RateLimit-Policy")


@pytest.fixture
def low_limit_api(db: None) -> Api:
    """A client of an account with a small quota."""
    account = Account(name="Few Pets")
    account.assign(PlanCode.ENTERPRISE, 3, 1000)
    return Api(ApiKey.objects.issue(account, by=OPERATOR)[1])


def peek(sender: Sender, key: int = 0) -> RateLimitDecision:
    decision = sender.peek(key).decision
    assert decision is not None
    return decision


# --- The response ---------------------------------------------------------------------------------


def test_key_reads_itself_and_its_account(db: None) -> None:
    account = Account.objects.create(name="Zoë 🐕", plan_id=PlanCode.PRO)
    ends = timezone.now() + timedelta(days=30)
    options: Any = {"name": "Kühe", "key_scopes": ["orders:read"], "expires_at": ends}
    key, text = ApiKey.objects.issue(account, allowed_networks=["127.0.0.0/8"], by=OPERATOR, **options)
    body = Api(text).get("/account").json()
    assert body["account"] == {
        "id": account.public_id,
        "name": "Zoë 🐕",
        "plan": "pro",
        "createdAt": to_json(account.created_at),
    }
    assert body["key"] == {
        "id": key.public_id,
        "name": "Kühe",
        "scopes": ["orders:read"],
        "allowedNetworks": ["127.0.0.0/8"],
        "createdAt": to_json(key.created_at),
        "expiresAt": to_json(ends),
        "lastUsedAt": None,
    }
    assert body["ban"] is None
    assert {name: window["limit"] for name, window in body["quota"].items()} == {
        "minute": 300,
        "day": 10_000,
    }


def to_json(timestamp: Any) -> str:
    return str(timestamp.isoformat().replace("+00:00", "Z"))


def test_windows_agree_with_the_headers_of_the_next_request(low_limit_api: Api) -> None:
    low_limit_api.get("/pets")
    peeked = low_limit_api.get("/account")
    minute, day = (peeked.json()["quota"][name] for name in ("minute", "day"))
    assert (minute["limit"], minute["used"], minute["remaining"]) == (3, 1, 2)
    assert (day["limit"], day["used"], day["remaining"]) == (1000, 1, 999)
    assert peeked.headers["X-RateLimit-Remaining"] == "2"
    counted = low_limit_api.get("/pets")
    assert counted.headers["X-RateLimit-Remaining"] == "1"
    assert counted.headers["X-RateLimit-Reset"] == peeked.headers["X-RateLimit-Reset"]
    assert [counted.headers[name] for name in LIMITS[::2]] == [peeked.headers[name] for name in LIMITS[::2]]


def test_head_and_if_none_match_are_supported(low_limit_api: Api) -> None:
    low_limit_api.get("/pets")  # Starts the minute, so that its end is fixed.
    peeked = low_limit_api.get("/account")
    assert peeked.headers["Cache-Control"] == "private, no-cache"
    assert low_limit_api("HEAD", "/account").content == b""
    assert low_limit_api.get("/account", If_None_Match=peeked.headers["ETag"]).status_code == 304


def test_other_method_is_rejected_and_costs_one(low_limit_api: Api) -> None:
    response = low_limit_api.post("/account", {})
    assert (response.status_code, response.headers["Allow"]) == (405, "GET, HEAD")
    assert low_limit_api.get("/account").json()["quota"]["day"]["used"] == 1


# --- Without remaining quota ----------------------------------------------------------------------


def test_account_is_readable_while_the_quota_is_used_up(low_limit_api: Api) -> None:
    rejected = [low_limit_api.get("/pets") for _ in range(4)][-1]
    assert rejected.status_code == 429
    peeked = low_limit_api.get("/account")
    assert peeked.status_code == 200
    minute = peeked.json()["quota"]["minute"]
    assert (minute["used"], minute["remaining"]) == (3, 0)
    assert timestamp(minute["resetsAt"]) == int(rejected.headers["X-RateLimit-Reset"])


def test_banned_key_reads_the_end_of_its_ban(low_limit_api: Api) -> None:
    assert low_limit_api.key is not None
    ban_by_now(low_limit_api.key)
    rejected = low_limit_api.get("/pets")
    assert rejected.json()["code"] == "api_key_banned"
    peeked = low_limit_api.get("/account")
    assert peeked.status_code == 200
    assert timestamp(peeked.json()["ban"]["until"]) == int(rejected.headers["X-RateLimit-Reset"])


def timestamp(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


@pytest.mark.parametrize("used", [0, 3, 4, None])
def test_peek_changes_no_state(db: None, used: int | None) -> None:
    """The windows are unused, used up or exceeded; None means a ban."""
    peeking, untouched = (Sender(per_minute=3, per_day=100) for _ in range(2))
    for sender in (peeking, untouched):
        if used is None:
            sender.get_banned()
        else:
            sender.admitted(used)
    for _ in range(2 * PEEKS_PER_MINUTE):
        peeking.peek()
    for _ in range(20):
        one, other = peeking.send(), untouched.send()
        assert (one.admitted, one.windows, one.banned_until) == (
            other.admitted,
            other.windows,
            other.banned_until,
        )


# --- Agreement with the next request --------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 12)),
        st.tuples(st.just("wait"), st.integers(-SKEW - SECOND, 70 * SECOND)),
        st.tuples(st.just("wait"), st.sampled_from([MINUTE - 1, MINUTE, MINUTE + 1, -1, -HOUR, -HOUR - 1])),
        st.tuples(st.just("day's end"), st.integers(-2, 2)),
        st.tuples(st.just("wait"), st.integers(0, 2 * DAY)),
        st.tuples(st.just("limits"), st.integers(1, 12)),
    ),
    max_size=12,
)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=times(60, 15)
)
@given(steps=STEPS, start=st.integers(20_800 * DAY, 20_801 * DAY))
def test_peek_agrees_with_the_next_request(db: None, steps: list[tuple[str, int]], start: int) -> None:
    sender = Sender(per_minute=5, per_day=20, now=start)
    for name, value in [*steps, ("send", 1)]:
        match name:
            case "send":
                for _ in range(value):
                    check_agreement(sender)
            case "wait":
                sender.now += value
            case "day's end":
                sender.now = (sender.now // DAY + 1) * DAY + value
            case "limits":
                sender.account.assign(PlanCode.ENTERPRISE, value, 2 * value)


def check_agreement(sender: Sender) -> None:
    """Check that a peek and a request at the same time differ only by this request."""
    peeked, sent = peek(sender), sender.send()
    assert peeked.admitted
    for before, after in zip(peeked.windows, sent.windows, strict=True):
        assert (before.limit, before.used + sent.admitted, before.ends_at) == (
            after.limit,
            after.used,
            after.ends_at,
        )
    assert sent.admitted == (not peeked.banned and all(window.remaining for window in peeked.windows))
    if peeked.banned:
        assert peeked.banned_until == sent.banned_until


# --- The peek limit -------------------------------------------------------------------------------


def test_key_is_limited_to_60_peeks_a_minute(db: None) -> None:
    sender = Sender(per_minute=5, per_day=20)
    sender.add_key()
    assert [peek(sender).admitted for _ in range(62)] == [True] * 60 + [False] * 2
    assert peek(sender, key=1).admitted
    rejected = peek(sender)
    assert format_headers(rejected)["X-RateLimit-Limit"] == "60"
    sender.wait(rejected.retry_after - 1)
    assert not peek(sender).admitted
    sender.wait(1)
    assert peek(sender).admitted


def test_61st_peek_is_a_429_with_its_own_headers(low_limit_api: Api) -> None:
    for _ in range(PEEKS_PER_MINUTE):
        assert low_limit_api.get("/account").status_code == 200
    rejected = low_limit_api.get("/account")
    assert (rejected.status_code, rejected.json()["code"]) == (429, "rate_limit_exceeded")
    assert [rejected.headers[name] for name in LIMITS] == ["60", "0", '"minute";q=60;w=60']
    assert 1 <= int(rejected.headers["Retry-After"]) <= 60


def test_rejected_peeks_are_no_strikes(low_limit_api: Api) -> None:
    for _ in range(PEEKS_PER_MINUTE + 50):
        low_limit_api.get("/account")
    assert [low_limit_api.get("/pets").status_code for _ in range(4)] == [200, 200, 200, 429]


# --- Authentication -------------------------------------------------------------------------------


def test_peek_authenticates_the_key(db: None) -> None:
    sender = Sender(per_minute=5, per_day=20, now=round(timezone.now().timestamp() * SECOND))
    for _ in range(3):
        sender.add_key()
    sender.keys[0].revoke(reason="Leaked.", by=OPERATOR)
    assert sender.peek(0).rejection is KeyRejectionReason.REVOKED
    sender.keys[1].expires_at = timezone.now() + timedelta(hours=1)
    sender.keys[1].save()
    sender.wait(2 * 60 * 60)
    assert sender.peek(1).rejection is KeyRejectionReason.EXPIRED
    sender.keys[2].allowed_networks = ["203.0.113.0/24"]
    sender.keys[2].save()
    assert sender.peek(2).rejection is KeyRejectionReason.NETWORK_NOT_ALLOWED
    address = ipaddress.ip_address("203.0.113.7")
    assert store.peek(parse(sender.texts[2]), address, sender.now).rejection is None
    unknown_key = key_format.generate("live", sender.account.public_id)
    assert store.peek(unknown_key, address, sender.now).rejection is KeyRejectionReason.UNKNOWN


# --- Usage ----------------------------------------------------------------------------------------


def test_peeks_update_last_use_but_not_usage(low_limit_api: Api) -> None:
    for _ in range(PEEKS_PER_MINUTE + 3):
        low_limit_api.get("/account")
    write_behind.recorder.write()
    assert ApiKey.objects.exclude(last_used_at=None).count() == 1
    for records in (DailyUsage, MinuteLoad, Refusal):
        assert not records.objects.exists()


# --- The windows on pages -------------------------------------------------------------------------


@pytest.mark.parametrize("later", [0, 1, -3 * SECOND, MINUTE - 1, MINUTE, DAY // 2 - 1, DAY // 2, DAY])
def test_pages_show_the_windows_of_a_peek(db: None, later: int) -> None:
    sender = Sender(3, 1000)
    assert store.read_windows(sender.account, sender.now) == peek(sender).windows  # Without requests.
    for _ in range(4):
        sender.admit()
    sender.now += later
    assert store.read_windows(sender.account, sender.now) == peek(sender).windows
