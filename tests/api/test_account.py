"""`GET /v1/account`: the account and its quota, free of charge (D39)."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Account, ApiKey, DailyUsage, MinuteCount, PlanCode, Rejection
from accounts.quota import store
from accounts.quota.limits import DAY, MINUTE, PEEKS_PER_MINUTE, SECOND, RateLimitDecision
from accounts.usage import write_behind
from tests.conftest import OPERATOR, Api
from tests.support.quota import Sender, ban_by_now

LIMITS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "RateLimit-Policy")


@pytest.fixture
def low_limit_api(db: None) -> Api:
    account = Account(name="Few Pets")
    account.assign(PlanCode.ENTERPRISE, 3, 1000)
    return Api(ApiKey.objects.issue(account, by=OPERATOR)[1])


def peek(sender: Sender, key: int = 0) -> RateLimitDecision:
    _, decision = sender.peek(key)
    return decision


def test_key_reads_itself_and_its_account(db: None) -> None:
    account = Account.objects.create(name="Zoë 🐕", plan_id=PlanCode.PRO)
    ends = timezone.now() + timedelta(days=30)
    options: Any = {"name": "Kühe", "key_scopes": ["orders:read"], "expires_at": ends}
    key, text = ApiKey.objects.issue(account, allowed_networks=["127.0.0.0/8"], by=OPERATOR, **options)
    body = Api(text).get("/account").json()
    assert body["account"] == {
        "id": account.public_id, "name": "Zoë 🐕", "plan": "pro", "createdAt": to_json(account.created_at),
    }  # fmt: skip
    assert body["key"] == {
        "id": key.public_id, "name": "Kühe", "scopes": ["orders:read"],
        "allowedNetworks": ["127.0.0.0/8"], "createdAt": to_json(key.created_at),
        "expiresAt": to_json(ends), "lastUsedAt": None,
    }  # fmt: skip
    assert body["ban"] is None
    limits = {name: window["limit"] for name, window in body["quota"].items()}
    assert limits == {"minute": 300, "day": 10_000}


def to_json(timestamp: Any) -> str:
    return str(timestamp.isoformat().replace("+00:00", "Z"))


def test_windows_agree_with_the_headers_of_other_requests(low_limit_api: Api) -> None:
    assert [low_limit_api.get("/pets").status_code for _ in range(3)] == [200] * 3
    rejected = low_limit_api.get("/pets")
    peeked = low_limit_api.get("/account")
    assert (rejected.status_code, peeked.status_code) == (429, 200)
    minute, day = (peeked.json()["quota"][name] for name in ("minute", "day"))
    assert (minute["limit"], minute["used"], minute["remaining"]) == (3, 3, 0)
    assert (day["limit"], day["used"], day["remaining"]) == (1000, 3, 997)
    assert timestamp(minute["resetsAt"]) == int(rejected.headers["X-RateLimit-Reset"])
    for name in (*LIMITS, "X-RateLimit-Reset"):
        assert peeked.headers[name] == rejected.headers[name]


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
    for _ in range(PEEKS_PER_MINUTE + 2):
        peeking.peek()
    for _ in range(5):
        one, other = peeking.send(), untouched.send()
        assert (one.admitted, one.windows) == (other.admitted, other.windows)
        assert one.banned_until == other.banned_until


def test_key_is_limited_to_60_peeks_a_minute(db: None) -> None:
    sender = Sender(per_minute=5, per_day=20)
    sender.add_key()
    assert [peek(sender).admitted for _ in range(62)] == [True] * 60 + [False] * 2
    assert peek(sender, key=1).admitted
    sender.wait(peek(sender).retry_after - 1)
    assert not peek(sender).admitted
    sender.wait(1)
    assert [peek(sender).admitted for _ in range(61)] == [True] * 60 + [False]
    sender.wait(-6)  # The clock was set back.
    assert peek(sender).admitted


def test_peeks_beyond_the_limit_get_429_and_are_neither_usage_nor_strikes(low_limit_api: Api) -> None:
    responses = [low_limit_api.get("/account") for _ in range(PEEKS_PER_MINUTE + 5)]
    statuses = [response.status_code for response in responses]
    assert statuses == [200] * PEEKS_PER_MINUTE + [429] * 5
    rejected = responses[-1]
    assert rejected.json()["code"] == "rate_limit_exceeded"
    assert [rejected.headers[name] for name in LIMITS] == ["60", "0", '"minute";q=60;w=60']
    assert 1 <= int(rejected.headers["Retry-After"]) <= 60
    write_behind.recorder.write()
    assert ApiKey.objects.exclude(last_used_at=None).count() == 1
    for records in (DailyUsage, MinuteCount, Rejection):
        assert not records.objects.exists()
    assert [low_limit_api.get("/pets").status_code for _ in range(4)] == [200, 200, 200, 429]


@pytest.mark.parametrize("later", [0, 1, -3 * SECOND, MINUTE - 1, MINUTE, DAY // 2 - 1, DAY // 2, DAY])
def test_pages_show_the_windows_of_a_peek(db: None, later: int) -> None:
    sender = Sender(3, 1000)
    assert store.read_windows(sender.account, sender.now) == peek(sender).windows  # Without requests.
    for _ in range(4):
        sender.admit()
    sender.now += later
    assert store.read_windows(sender.account, sender.now) == peek(sender).windows
