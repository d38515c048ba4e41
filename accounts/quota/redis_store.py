"""The quota store in Redis 7 or Redis Cluster. It usually takes one round trip per request.

It stores four kinds of hashes. The hash tag is the account's public ID, so all hashes of an account share a
cluster slot. KEY stands for the last 6 characters of the key's public ID:

    petstore:{ACCOUNT}:key:KEY        the cached key record, for up to a minute
    petstore:{ACCOUNT}:quota          the account's windows, for about a day
    petstore:{ACCOUNT}:standing:KEY   the key's rate-limit state, until its strikes and ban end
    petstore:{ACCOUNT}:looks:KEY      the key's peeks, until their minute ends
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from django.conf import settings
from django.db import Error

from accounts.events.warnings import THRESHOLDS
from accounts.keys import key_format, networks
from accounts.keys.identity import Caller, KeyRecord
from accounts.keys.key_format import ACCOUNT_ID_LENGTH, PUBLIC_ID_LENGTH, ParsedKey
from accounts.models import Account, QuotaCounter
from accounts.quota import bans, key_record, limits
from accounts.quota.anonymous import lookup_limiter
from accounts.quota.database_store import compute_windows, read_windows
from accounts.quota.key_record import KeyRejectionReason
from accounts.quota.limits import Counters, Limits, RateLimitDecision, Window, build_windows, decide_peek
from accounts.quota.store_protocol import QuotaResult
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.event_loop.redis_scripts import RedisUnavailableError, Script, ScriptRunner, make_script
from petstore.event_loop.threads import run_in_thread
from petstore.observability.metrics import FOREIGN_REPLIES

logger = logging.getLogger(__name__)

RECORD_TTL_MS = 60_000  # An unpublished change takes effect after this time at the latest.
UNKNOWN_TTL_MS = 10_000
TEXT_FIELDS = ("digest", "scopes", "account_name", "plan", "name")
INTEGER_FIELDS = (
    "id", "account_id", "pepper_number", "expires_at", "banned_until", "ban_level",
    "account_created_at", "created_at", "last_used_at",
)  # fmt: skip
MAX_RUNS = 8  # A request rarely needs more than 3, or 5 if its record expires in between.

# Every reply starts with public_id(), so that a reply meant for another key is detected.
LUA_CONSTANTS = f"""
local SECOND, MINUTE, DAY = {limits.SECOND}, {limits.MINUTE}, {limits.DAY}
local SKEW, NIGHT_SKEW = {limits.SKEW}, {limits.NIGHT_SKEW}
local STRIKE_WINDOW, FIRST_STRIKE_AFTER = {bans.STRIKE_WINDOW}, {bans.FIRST_STRIKE_AFTER}
local STRIKE_INTERVAL, STRIKES_TO_BAN = {bans.STRIKE_INTERVAL}, {bans.STRIKES_TO_BAN}
local MIN_REJECTIONS_TO_BAN = {bans.MIN_REJECTIONS_TO_BAN}
local THRESHOLDS = {{{", ".join(map(str, THRESHOLDS))}}}
local BAN_LENGTHS, STEP_BACK_AFTER = {{{", ".join(map(str, bans.BAN_LENGTHS))}}}, {bans.STEP_BACK_AFTER}
local function public_id()
    local account = string.sub(KEYS[1], 11, {10 + ACCOUNT_ID_LENGTH})
    return account .. string.sub(KEYS[1], {17 + ACCOUNT_ID_LENGTH})
end
"""


def load_script(*names: str, idempotent: bool) -> Script:
    """Combine LUA_CONSTANTS and these files into one Lua script."""
    parts = [Path(__file__).with_name(name).read_text() for name in names]
    return make_script(LUA_CONSTANTS + "".join(parts), idempotent=idempotent)


ADMIT = load_script("verify_key.lua", "admit.lua", idempotent=False)
PEEK = load_script("verify_key.lua", "peek.lua", idempotent=False)
LEASE = load_script("lease.lua", idempotent=True)
PUBLISH = load_script("publish.lua", idempotent=True)
READ_WINDOWS = load_script("read_windows.lua", idempotent=True)
RECORD_WRITE = load_script("record_write.lua", idempotent=True)
DELETE_RECORD = load_script("delete_record.lua", idempotent=True)
GET_EVICTION_POLICY = load_script("eviction_policy.lua", idempotent=True)
EVICTION_WARNING = (
    "Redis %s may evict quota counters when its memory is full (maxmemory-policy %s), which starts "
    "the minute of an account over. Set maxmemory-policy to noeviction."
)


class MismatchedReplyError(RedisUnavailableError):
    """Redis sent a reply for another key, so no reply on this connection can be trusted."""


class RecordEvictedError(Exception):
    """Redis repeatedly lost a key record before it was used, usually because its memory is full."""


def get_redis_keys(public_id: str, *, peek: bool = False) -> list[str]:
    account, key = public_id[:ACCOUNT_ID_LENGTH], public_id[ACCOUNT_ID_LENGTH:]
    prefix = f"petstore:{{{account}}}"
    keys = [f"{prefix}:key:{key}", f"{prefix}:quota", f"{prefix}:standing:{key}"]
    return [*keys, f"{prefix}:looks:{key}"] if peek else keys


class RedisQuotaStore:
    """Every method that calls Redis raises RedisUnavailableError if that fails."""

    def __init__(self, url: str) -> None:
        self._scripts = ScriptRunner(url)
        self._checked_servers: set[str] = set()  # Their eviction policy has been checked.

    def ping(self, public_id: str = "--------------") -> None:
        """Raise RedisUnavailableError unless Redis can run the scripts for this key's account."""
        unused_id = public_id[:ACCOUNT_ID_LENGTH] + "-" * (len(public_id) - ACCOUNT_ID_LENGTH)
        self._run(PUBLISH, unused_id, [0, 1, 0, 0, 0, "", "ping", "1"])

    def get_node_name(self, public_id: str) -> str:
        """Return the cluster node of the key's account, or '' without a cluster."""
        return self._scripts.get_node_name(get_redis_keys(public_id)[0]) if self._scripts.is_cluster else ""

    def admit(
        self, key: ParsedKey, address: Address, now: int | None = None, *, may_write: bool = False
    ) -> QuotaResult:
        """See QuotaStore. Only the script's last run counts the request. Also raises RecordEvictedError."""
        return self._authenticate(ADMIT, key, address, now, may_write=may_write)

    def peek(self, key: ParsedKey, address: Address, now: int | None = None) -> QuotaResult:
        """See QuotaStore. Also raises RecordEvictedError."""
        return self._authenticate(PEEK, key, address, now)

    def _authenticate(
        self, script: Script, key: ParsedKey, address: Address, now: int | None, *, may_write: bool = False
    ) -> QuotaResult:
        """Run a script that starts with verify_key.lua until it counts the request or rejects the key."""
        keys = get_redis_keys(key.public_id, peek=script is PEEK)
        arguments: list[Any] = ["" if now is None else now, "", int(may_write), "", "", ""]
        for number, pepper in settings.API_KEY_PEPPERS.items():
            arguments += [number, key_format.compute_digest(key, pepper)]
        for _ in range(MAX_RUNS):
            reply = self._check_reply(key.public_id, self._scripts.run(script, keys, arguments))
            with parsing(reply):
                kind, values = reply[0].decode(), reply[1:]
            match kind:
                case "miss":
                    if not lookup_limiter.allow(address):
                        return QuotaResult(rejection=KeyRejectionReason.LOOKUP_THROTTLED)
                    self.refresh(key.public_id)
                case "networks":
                    with parsing(reply):
                        allowed_networks = values[0].decode()
                    if not networks.is_allowed(address, allowed_networks.split()):
                        return QuotaResult(rejection=KeyRejectionReason.NETWORK_NOT_ALLOWED)
                    arguments[1] = allowed_networks
                case "threshold":
                    with parsing(reply):
                        account_id, day, limit, used = map(int, values)
                    is_stored = write_behind.recorder.store_warnings(account_id, day, limit, used)
                    arguments[3:5] = day if is_stored else "-", used
                case "ban":
                    with parsing(reply):
                        ban = bans.Ban(*map(int, values))
                    write_behind.recorder.record_ban(ban)
                    arguments[5] = 1
                case "rejected":
                    with parsing(reply):
                        return QuotaResult(rejection=KeyRejectionReason(values[0].decode()))
                case _:
                    return finish_peek(key, reply) if script is PEEK else finish_admit(key, reply)
        raise RecordEvictedError(
            f"Redis repeatedly lost the record of key {key.public_id} during a request."
        )

    def read_windows(self, account: Account, now: int | None = None) -> tuple[Window, Window]:
        """Read the windows that a peek would read, from the database if Redis has no counters."""
        unused_id = account.public_id.ljust(PUBLIC_ID_LENGTH, "-")
        reply = self._run(READ_WINDOWS, unused_id, ["" if now is None else now])
        with parsing(reply):
            now, *counters = map(int, reply)
        counter = QuotaCounter(**dict(zip(key_record.COUNTER_FIELDS, counters, strict=True)))
        if not counter.day:
            return read_windows(account, now)
        return compute_windows(account.limits, counter, now)[0]

    def refresh(self, public_id: str) -> None:
        """Publish the key record and the account's daily count from the database."""
        self._check_eviction_policy(public_id)
        (lease,) = self._run(LEASE, public_id, [token_hex(8), RECORD_TTL_MS])
        record = key_record.read(public_id)
        _, _, counters = self._run(PUBLISH, public_id, build_publish_arguments(record, lease))
        if record.id and not counters and write_behind.recorder.has_unwritten_requests(record.account_id):
            # Redis has lost the account's counters, so the database needs this process's unwritten counts.
            with suppress(Error):
                run_in_thread(write_behind.recorder.write)
            record = key_record.read(public_id)
            self._run(PUBLISH, public_id, build_publish_arguments(record, lease))

    def reconnect(self) -> None:
        """Reconnect, and check the eviction policy again, since another server may have taken over."""
        self._checked_servers.clear()
        self._scripts.reconnect()

    def _check_eviction_policy(self, public_id: str) -> None:
        """Warn once if the server may evict quota counters."""
        server = self.get_node_name(public_id)
        if server not in self._checked_servers:
            self._checked_servers.add(server)
            maxmemory, policy = self._run(GET_EVICTION_POLICY, public_id, [])
            if int(maxmemory) and policy != b"noeviction":
                logger.warning(EVICTION_WARNING, server or "server", policy.decode())

    def publish_all(self, records: Collection[KeyRecord]) -> list[tuple[bool, int]]:
        """Publish records, pipelined unless Redis is a cluster. This blocks, so call it in a thread.

        Returns for each record whether it was stored, and the version in Redis, which may be later.
        """
        calls = [(get_redis_keys(record.public_id), build_publish_arguments(record)) for record in records]
        replies = self._scripts.run_all(PUBLISH, calls)
        results = []
        for record, reply in zip(records, replies, strict=True):
            stored, version, _ = self._check_reply(record.public_id, reply)
            results.append((bool(stored), version))
        return results

    def record_write(self, public_id: str) -> None:
        self._run(RECORD_WRITE, public_id, [])

    def delete_record(self, public_id: str) -> None:
        self._run(DELETE_RECORD, public_id, [])

    def _run(self, script: Script, public_id: str, arguments: Sequence[Any]) -> list[Any]:
        return self._check_reply(public_id, self._scripts.run(script, get_redis_keys(public_id), arguments))

    def _check_reply(self, public_id: str, reply: Any) -> list[Any]:
        """Strip the public ID from a reply to this key.

        For any other reply, close the connection, since replies may no longer match their requests.
        """
        if isinstance(reply, list) and reply and reply[0] == public_id.encode():
            return reply[1:]
        self._scripts.disconnect()
        if isinstance(reply, list) and reply and isinstance(reply[0], bytes):
            FOREIGN_REPLIES.inc()
            raise MismatchedReplyError(f"The reply to {public_id} was for {reply[0][:20]!r}.")
        raise RedisUnavailableError(f"Unexpected reply: {reply!r}.")


def build_publish_arguments(record: KeyRecord, lease: bytes = b"") -> list[Any]:
    """Build the arguments of publish.lua. Without a lease, they publish a change."""
    fields = {name: getattr(record, name) for name in (*TEXT_FIELDS, *INTEGER_FIELDS)} | {
        "networks": " ".join(record.networks),
        "revoked": int(record.revoked),
        "suspended": int(record.suspended),
        "per_minute": record.limits.per_minute,
        "per_day": record.limits.per_day,
        "lifts": record.unban_count,
    }
    ttl = RECORD_TTL_MS if record.id else UNKNOWN_TTL_MS
    used_in_database = min(record.day_used_in_database, record.day_used)
    used_in_redis = record.day_used - used_in_database
    arguments = [record.version, ttl, record.day, used_in_redis, used_in_database, lease]
    for name, value in fields.items():
        arguments += [name, value]
    return arguments


def parse_record(public_id: str, fields: list[bytes]) -> KeyRecord:
    """Parse the reply of HGETALL, in which names and values alternate."""
    decoded = [field.decode() for field in fields]
    values: dict[str, Any] = dict(zip(decoded[::2], decoded[1::2], strict=True))
    values |= {name: int(values[name]) for name in INTEGER_FIELDS}
    return KeyRecord(
        public_id=public_id,
        version=int(values["version"]),
        limits=Limits(int(values["per_minute"]), int(values["per_day"])),
        networks=tuple(values["networks"].split()),
        unban_count=int(values["lifts"]),
        **{name: values[name] for name in (*TEXT_FIELDS, *INTEGER_FIELDS)},
    )


@contextmanager
def parsing(reply: Any) -> Iterator[None]:
    """Raise RedisUnavailableError if the block fails to parse the reply."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RedisUnavailableError(f"Unexpected reply: {reply!r}.") from error


def finish_admit(key: ParsedKey, reply: list[Any]) -> QuotaResult:
    """Parse the reply of admit.lua, and record the request."""
    with parsing(reply):
        kind, key_id, account_id, scope_list, *numbers = reply
        if kind != b"counted":
            raise ValueError(kind)
        per_minute, per_day, *counters, now, banned_until, pepper, admitted, write_age = map(int, numbers)
        scopes = frozenset(scope_list.decode().split())
        caller = Caller(int(account_id), int(key_id), key.public_id, scopes, write_age)
        windows = build_windows(Limits(per_minute, per_day), Counters(*counters), now)
    decision = RateLimitDecision(bool(admitted), windows, now, banned_until)
    write_behind.recorder.count(caller, decision, in_redis=True)
    write_behind.recorder.rehash(key, caller.key_id, pepper)
    return QuotaResult(caller=caller, decision=decision)


def finish_peek(key: ParsedKey, reply: list[Any]) -> QuotaResult:
    """Parse the reply of peek.lua, and record the use of the key."""
    with parsing(reply):
        if reply[0] != b"peeked":
            raise ValueError(reply[0])
        *counters, now, banned_until, peeks, peeks_end = map(int, reply[1:9])
        record = parse_record(key.public_id, reply[9:])
        windows = build_windows(record.limits, Counters(*counters), now)
    caller = record.caller._replace(record=record)
    decision = decide_peek(windows, now, banned_until, peeks=peeks, peeks_end=peeks_end)
    write_behind.recorder.record_key_use(caller, now)
    write_behind.recorder.rehash(key, caller.key_id, record.pepper_number)
    return QuotaResult(caller=caller, decision=decision)
