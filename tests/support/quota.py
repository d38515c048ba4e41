"""Sends requests to a quota store, with a clock that the test controls."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

from accounts.keys import key_format
from accounts.keys.identity import KeyRejectedError, KeyRejectionReason
from accounts.keys.key_format import ParsedKey
from accounts.models import Account, Actor, ApiKey, PlanCode
from accounts.quota import store
from accounts.quota.limits import DAY, SECOND, RateLimitDecision, Window
from accounts.quota.store import KeyUse

ADDRESS = IPv4Address("192.0.2.1")
NOON = 20_800 * DAY + DAY // 2  # An arbitrary day, at noon.


def parse(text: str) -> ParsedKey:
    key = key_format.parse(text)
    assert key is not None
    return key


def replace_secret(text: str) -> str:
    """Return a well-formed key with the same public ID and another secret."""
    start = text[: text.rindex("_") + 1] + "x" * key_format.SECRET_LENGTH
    return start + key_format.compute_checksum(start)


def find_rejection(send: Callable[..., KeyUse], *arguments: Any) -> KeyRejectionReason | None:
    """Send a request; return why its key is rejected, or None if it is not."""
    try:
        send(*arguments)
    except KeyRejectedError as error:
        reason: KeyRejectionReason = error.args[0]
        return reason
    return None


@dataclass
class Sender:
    """Sends requests of one account to the quota store."""

    per_minute: int
    per_day: int
    now: int = NOON
    account: Account = field(init=False)
    texts: list[str] = field(default_factory=list)
    keys: list[ApiKey] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.account = Account(name=f"Account {Account.objects.count()}")
        self.account.assign(PlanCode.ENTERPRISE, self.per_minute, self.per_day)
        self.add_key()

    def add_key(self) -> None:
        key, text = ApiKey.objects.issue(self.account, by=Actor("tests"))
        self.keys.append(key)
        self.texts.append(text)

    def admit(self, key: int = 0) -> KeyUse:
        return store.admit(parse(self.texts[key]), ADDRESS, self.now)

    def peek(self, key: int = 0) -> KeyUse:
        return store.peek(parse(self.texts[key]), ADDRESS, self.now)

    def send(self, key: int = 0) -> RateLimitDecision:
        """Send a request with the account's key of this index."""
        _, decision = self.admit(key)
        return decision

    def admitted(self, requests: int) -> int:
        """Send this many requests; return how many were admitted."""
        return sum(self.send().admitted for _ in range(requests))

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)

    def get_banned(self, key: int = 0) -> RateLimitDecision:
        """Ignore 429 until the key is banned; return the decision that bans it."""
        decision = send_until_banned(self.texts[key], self.now)
        self.now = decision.now
        return decision


def send_until_banned(text: str, now: int) -> RateLimitDecision:
    """Ignore 429 from this time on, by the store's clock; return the decision that bans the key."""
    key = parse(text)
    for _ in range(1_000):
        _, decision = store.admit(key, ADDRESS, now)
        if decision.banned:
            return decision
        now += 0 if decision.admitted else SECOND // 2
    raise AssertionError("The key was not banned.")


def ban_by_now(text: str) -> RateLimitDecision:
    """Ban a key that has ignored 429 for some seconds; return the decision that bans it."""
    return send_until_banned(text, time.time_ns() // 1000 - 25 * SECOND)


def minute(decision: RateLimitDecision) -> Window:
    return decision.windows[0]


def day(decision: RateLimitDecision) -> Window:
    return decision.windows[1]
