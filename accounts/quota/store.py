"""Authenticates keys and counts requests in the database. sql.py has the rule."""

import json
import time
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection

from accounts.events.warnings import store_quota_warnings
from accounts.keys import key_format, networks
from accounts.keys.identity import KeyRejectedError, KeyRejectionReason
from accounts.keys.key_format import ACCOUNT_ID_LENGTH, ParsedKey
from accounts.models import Account, ApiKey, QuotaUsage, StrikeCounter
from accounts.quota import bans, sql
from accounts.quota.anonymous import lookup_limiter
from accounts.quota.limits import (
    MINUTE,
    PEEKS_PER_MINUTE,
    Limits,
    RateLimitDecision,
    Window,
    build_windows,
    to_datetime,
)
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.api.context import Caller
from petstore.api.errors import RETRY_SECONDS, ApiError, ErrorCode
from petstore.db.counting import execute_counting
from petstore.db.identity import is_postgresql

MAX_ATTEMPTS = 10
NO_NETWORKS = "[]"
MAX_NETWORKS_KNOWN = 10_000  # Keys.
KEY_REJECTIONS = {reason.value: reason for reason in KeyRejectionReason}


# The networks of a key as last read, by public ID. ADMIT compares them, so they may be out of date.
known_networks: dict[str, str] = {}

KeyUse = tuple[Caller, RateLimitDecision]


class Quota(NamedTuple):
    """What each statement returns of a key and its account. Times are microseconds since the epoch."""

    now: int
    key_id: int
    account_id: int
    pepper_number: int
    scopes: str
    per_minute: int
    per_day: int
    minute_ends_at: int
    minute_used: int
    day: int
    day_used: int

    @property
    def windows(self) -> tuple[Window, Window]:
        counters = self.minute_ends_at, self.minute_used, self.day, self.day_used
        return build_windows(self.now, Limits(self.per_minute, self.per_day), *counters)


class KeyState(NamedTuple):
    """Why a key can't be admitted, or '' if it can be or if its rejection can be counted."""

    quota: Quota
    reason: str
    banned_until: int
    peeks_reset_at: int
    last_write_at: int


class QuotaCall:
    """The statements of one request, with their parameters.

    The secret of the key is not among the parameters, only its digests under all peppers.
    """

    def __init__(
        self, key: ParsedKey, address: Address, now: int | None, *, may_write: bool = False
    ) -> None:
        now = get_clock(now)
        self._key, self._address = key, address
        known = known_networks.get(key.public_id, NO_NETWORKS)
        self._parameters: dict[str, Any] = {
            "now": now,
            "public_id": key.public_id,
            "networks": known if self._is_allowed(known) else NO_NETWORKS,
            "may_write": int(may_write),
        }
        if now is not None and not is_postgresql():
            self._parameters["now_text"] = connection.ops.adapt_datetimefield_value(to_datetime(now))
        for position, (number, pepper) in enumerate(settings.API_KEY_PEPPERS.items(), 1):
            self._parameters[f"pepper_{position}"] = number
            self._parameters[f"digest_{position}"] = key_format.compute_digest(key, pepper)

    def admit(self) -> KeyUse | None:
        """Count the request if the key is valid and has quota left."""
        row = self._execute(sql.ADMIT)
        if row is None:
            return None
        quota = Quota(*row[:-1])
        decision = RateLimitDecision(True, quota.windows, quota.now)
        return self._finish(quota, decision, time_since_write=quota.now - row[-1])

    def reject(self) -> KeyUse | None:
        """Count a rejection if the key is valid and has no quota left, and ban the key if that is due."""
        row = self._execute(sql.REJECT)
        if row is None:
            return None
        *fields, rejections, strikes, started_at = row
        quota, banned_until = Quota(*fields), 0
        if strikes >= bans.STRIKES_TO_BAN and rejections >= bans.get_rejections_to_ban(quota.per_minute):
            banned_until = ban(quota, rejections, started_at)
        return self._finish(quota, RateLimitDecision(False, quota.windows, quota.now, banned_until))

    def read(self) -> KeyState:
        """Read why the key can't be admitted. Raises KeyRejectedError."""
        row = self._execute(sql.READ)
        if row is None:
            raise KeyRejectedError(KeyRejectionReason.UNKNOWN)
        *fields, allowed_networks, reason, banned_until, peeks_reset_at, last_write_at = row
        if reason == "networks":
            if not self._is_allowed(allowed_networks):
                raise KeyRejectedError(KeyRejectionReason.NETWORK_NOT_ALLOWED)
            if len(known_networks) >= MAX_NETWORKS_KNOWN:
                known_networks.clear()
            self._parameters["networks"] = known_networks[self._key.public_id] = allowed_networks
        elif reason in KEY_REJECTIONS:
            raise KeyRejectedError(KEY_REJECTIONS[reason])
        return KeyState(Quota(*fields), reason, banned_until, peeks_reset_at, last_write_at)

    def resolve(self, state: KeyState) -> KeyUse | None:
        """Remove the obstacle to counting the request. Returns a result if the key is banned."""
        quota = state.quota
        match state.reason:
            case "banned":
                decision = RateLimitDecision(False, quota.windows, quota.now, state.banned_until)
                return self._finish(quota, decision)
            case "ahead":
                self._execute(sql.SET_BACK, account_id=quota.account_id)
            case "usage":
                QuotaUsage.renew(quota.account_id)
            case "strikes":
                StrikeCounter.renew(quota.key_id)
            case "warning":
                usage = quota.day_used + 1
                store_quota_warnings(quota.account_id, quota.day, quota.per_day, usage)
        return None

    def peek(self, state: KeyState) -> KeyUse:
        """Count a peek."""
        row = self._execute(sql.PEEK, key_id=state.quota.key_id)
        quota = state.quota
        if row is None:
            window = Window("minute", PEEKS_PER_MINUTE, PEEKS_PER_MINUTE, MINUTE, state.peeks_reset_at)
            decision = RateLimitDecision(False, (window,), quota.now)
        else:
            decision = RateLimitDecision(True, quota.windows, quota.now, state.banned_until)
        caller = self._build_caller(quota, quota.now - state.last_write_at)
        write_behind.recorder.record_key_use(caller, quota.now)
        return caller, decision

    def _is_allowed(self, allowed_networks: str) -> bool:
        return allowed_networks == NO_NETWORKS or networks.is_allowed(
            self._address, json.loads(allowed_networks)
        )

    def _execute(self, template: str, **parameters: Any) -> tuple[Any, ...] | None:
        return execute(template, self._key.account_id, **self._parameters, **parameters)

    def _build_caller(self, quota: Quota, time_since_write: int = 0) -> Caller:
        lookup_limiter.remember(self._key)
        write_behind.recorder.rehash(self._key, quota.key_id, quota.pepper_number)
        scopes = frozenset(quota.scopes.split())
        return Caller(quota.account_id, quota.key_id, self._key.public_id, scopes, time_since_write)

    def _finish(self, quota: Quota, decision: RateLimitDecision, *, time_since_write: int = 0) -> KeyUse:
        caller = self._build_caller(quota, time_since_write)
        write_behind.recorder.count(caller, decision)
        return caller, decision


def admit(key: ParsedKey, address: Address, now: int | None = None, *, may_write: bool = False) -> KeyUse:
    """Authenticate the key, then decide on the request and count it in one atomic step.

    `now` is in microseconds since the epoch; only tests pass it. With `may_write`, the time since the
    account's latest write restarts. An admitted request takes one statement, a 429 two. Raises
    KeyRejectedError, ApiError 503 if the state keeps changing, and Django's database errors.
    """
    if not lookup_limiter.allow(key, address):
        raise KeyRejectedError(KeyRejectionReason.LOOKUP_THROTTLED)
    call = QuotaCall(key, address, now, may_write=may_write)
    for _ in range(MAX_ATTEMPTS):
        if result := call.admit() or call.reject():
            return result
        state = call.read()
        if result := call.resolve(state):
            return result
    raise build_unsettled_error()


def peek(key: ParsedKey, address: Address, now: int | None = None) -> KeyUse:
    """Authenticate the key, and read both windows and the ban without counting in the windows (D39).

    Peeks are limited to PEEKS_PER_MINUTE per key. The decision on a rejected peek has only that window.
    Raises what `admit` raises.
    """
    if not lookup_limiter.allow(key, address):
        raise KeyRejectedError(KeyRejectionReason.LOOKUP_THROTTLED)
    call = QuotaCall(key, address, now)
    for _ in range(MAX_ATTEMPTS):
        state = call.read()
        if state.reason not in {"networks", "ahead"}:
            return call.peek(state)
        call.resolve(state)
    raise build_unsettled_error()


def build_unsettled_error() -> ApiError:
    return ApiError(ErrorCode.SERVICE_UNAVAILABLE, headers={"Retry-After": str(RETRY_SECONDS)})


def ban(quota: Quota, rejections: int, started_at: int) -> int:
    """Ban the key unless that has happened since the strike window started. Returns the end of the ban."""
    key = ApiKey.objects.filter(pk=quota.key_id).first()  # It may have just been deleted.
    return key.ban(quota.now, started_at, rejections) if key else 0


def read_windows(account: Account, now: int | None = None) -> tuple[Window, Window]:
    """Read the windows that GET /v1/account shows, without a key. Takes one query."""
    now = get_clock(now)
    row = execute(sql.READ_WINDOWS, account.public_id, now=now, account_id=account.pk)
    assert row is not None
    now, per_minute, per_day, *counters = row
    return build_windows(now, Limits(per_minute, per_day), *counters)


def record_write(caller: Caller) -> None:
    """Restart the time since the account's latest write, at the end of a long one."""
    group = caller.public_id[:ACCOUNT_ID_LENGTH]
    execute(sql.RECORD_WRITE, group, now=get_clock(), account_id=caller.account_id)


def execute(template: str, account_public_id: str, **parameters: Any) -> tuple[Any, ...] | None:
    text = sql.build_sql(template, len(settings.API_KEY_PEPPERS))
    return execute_counting(text, account_public_id, parameters)


def get_clock(now: int | None = None) -> int | None:
    """Return the time for the statements: None on PostgreSQL, which has a clock of its own."""
    return time.time_ns() // 1000 if now is None and not is_postgresql() else now
