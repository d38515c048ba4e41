"""The quota store on Redis 7 or Redis Cluster: one round trip authenticates, decides and counts.

Four hashes. The hash tag is the account's public id, so all keys of an account share a cluster slot:

    petstore:{8 characters of the account}:key:6 characters   cached key record; expires after a minute
    petstore:{8 characters of the account}:quota              the account's windows; until the day ends
    petstore:{8 characters of the account}:standing:6         rate-limit state of the key; until it ends
    petstore:{8 characters of the account}:looks:6            peeks of the key; until their minute ends
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from django.conf import settings
from django.db import Error

from accounts.events.warnings import THRESHOLDS
from accounts.keys import key_format, networks
from accounts.keys.identity import Caller, KeyRecord
from accounts.keys.key_format import ACCOUNT_ID_LENGTH, KeyText
from accounts.quota import bans, key_record
from accounts.quota.admission import Admission
from accounts.quota.anonymous import lookup_limiter
from accounts.quota.database_store import NIGHT_SKEW, SKEW
from accounts.quota.key_record import KeyRejection
from accounts.quota.limits import (
    DAY,
    MINUTE,
    SECOND,
    Counters,
    Limits,
    RateLimitDecision,
    build_windows,
    peek_decision,
)
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.event_loop.redis_scripts import RedisUnavailableError, Script, ScriptRunner, script
from petstore.event_loop.threads import in_thread
from petstore.observability.metrics import FOREIGN_REPLIES

logger = logging.getLogger(__name__)

RECORD_TTL_MS = 60_000  # Bounds how long a change that was not published stays invisible.
ABSENT_TTL_MS = 10_000  # Of unknown keys.
TEXTS = ("digest", "scopes", "account_name", "plan", "name")
NUMBERS = (
    "id", "account_id", "pepper_number", "expires_at", "banned_until", "ban_level", "lifts",
    "account_created_at", "created_at", "last_used_at",
)  # fmt: skip
MAX_ROUND_TRIPS = 8  # Round trips of a request: usually at most 3, or 5 if the record expires in between.

# public_id() identifies the key that a reply is for.
LUA_CONSTANTS = f"""
local SECOND, MINUTE, DAY, SKEW, NIGHT_SKEW = {SECOND}, {MINUTE}, {DAY}, {SKEW}, {NIGHT_SKEW}
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
    """Concatenate the files to one Lua script, after LUA_CONSTANTS."""
    parts = [Path(__file__).with_name(name).read_text() for name in names]
    return script(LUA_CONSTANTS + "".join(parts), idempotent=idempotent)


ADMIT = load_script("verify_key.lua", "admit.lua", idempotent=False)
PEEK = load_script("verify_key.lua", "peek.lua", idempotent=False)
LEASE = load_script("lease.lua", idempotent=True)
PUBLISH = load_script("publish.lua", idempotent=True)
RECORD_WRITE = load_script("record_write.lua", idempotent=True)
FORGET = script(LUA_CONSTANTS + "redis.call('DEL', KEYS[1]) return {public_id()}", idempotent=True)


# INFO, because managed servers often forbid CONFIG GET.
MEMORY = script(
    LUA_CONSTANTS
    + """
local info = redis.pcall('INFO', 'memory')
if type(info) ~= 'string' then info = '' end
return {public_id(), string.match(info, 'maxmemory:(%d+)') or '0',
    string.match(info, 'maxmemory_policy:(%S+)') or 'noeviction'}
""",
    idempotent=True,
)
EVICTION_WARNING = (
    "Redis %s may evict quota counters when its memory is full (maxmemory-policy %s), which restarts an "
    "account's minute. Set maxmemory-policy to noeviction."
)


class ForeignReplyError(RedisUnavailableError):
    """A reply was for another key, so no reply on this connection can be trusted."""


class RecordEvictedError(Exception):
    """Redis responds but evicts records before they are used, usually because its memory is full."""


def get_redis_keys(public_id: str) -> list[str]:
    account, key = public_id[:ACCOUNT_ID_LENGTH], public_id[ACCOUNT_ID_LENGTH:]
    start = f"petstore:{{{account}}}:"
    return [f"{start}key:{key}", f"{start}quota", f"{start}standing:{key}"]


def peek_keys(public_id: str) -> list[str]:
    account, key = public_id[:ACCOUNT_ID_LENGTH], public_id[ACCOUNT_ID_LENGTH:]
    return [*get_redis_keys(public_id), f"petstore:{{{account}}}:looks:{key}"]


class RedisQuotaStore:
    """Every method raises RedisUnavailableError when Redis fails."""

    def __init__(self, url: str) -> None:
        self._scripts = ScriptRunner(url)
        self._checked: set[str] = set()  # Servers whose eviction policy was checked.

    def ping(self, public_id: str = "--------------") -> None:
        """Raise RedisUnavailableError unless Redis can run the scripts for this key's account."""
        absent = public_id[:ACCOUNT_ID_LENGTH] + "-" * (len(public_id) - ACCOUNT_ID_LENGTH)
        self._run(PUBLISH, absent, [0, 1, 0, 0, 0, "", "ping", "1"])

    def get_shard(self, public_id: str) -> str:
        """Return the cluster node of the key's account, '' without a cluster."""
        return self._scripts.node(get_redis_keys(public_id)[0]) if self._scripts.is_cluster else ""

    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """See QuotaStore. Only the last round trip counts. Also raises RecordEvictedError."""
        reply = self._authenticate(
            ADMIT, get_redis_keys(key.public_id), key, address, now=now, writes=writes
        )
        return reply if isinstance(reply, Admission) else parse_admission(key, reply)

    def peek(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """See QuotaStore. Also raises RecordEvictedError."""
        reply = self._authenticate(PEEK, peek_keys(key.public_id), key, address, now=now, writes=False)
        return reply if isinstance(reply, Admission) else parse_peek(key, reply)

    def _authenticate(
        self,
        script: Script,
        keys: list[str],
        key: KeyText,
        address: Address,
        *,
        now: int | None,
        writes: bool,
    ) -> Admission | list[Any]:
        """Run a script that starts with verify_key.lua; return its last reply or a rejection."""
        arguments: list[Any] = ["" if now is None else now, "", int(writes), "", "", ""]
        for number, pepper in settings.API_KEY_PEPPERS.items():
            arguments += [number, key_format.compute_digest(key, pepper)]
        for _ in range(MAX_ROUND_TRIPS):
            reply = self._check_reply(key.public_id, self._scripts.run(script, keys, arguments))
            with well_formed(reply):
                kind, values = reply[0].decode(), reply[1:]
            if kind == "miss":
                if not lookup_limiter.allow(address):
                    return Admission(rejection=KeyRejection.LOOKUP_LIMITED)
                self.refresh(key.public_id)
            elif kind == "networks":  # A second round trip; such keys are rare.
                with well_formed(reply):
                    allowed = values[0].decode()
                if not networks.is_allowed(address, allowed.split()):
                    return Admission(rejection=KeyRejection.NETWORK_NOT_ALLOWED)
                arguments[1] = allowed
            elif kind == "reaches":  # At most twice a day.
                with well_formed(reply):
                    account_id, day, limit, used = map(int, values)
                warned = write_behind.recorder.store_warnings(account_id, day, limit, used)
                arguments[3:5] = day if warned else "-", used
            elif kind == "bans":
                with well_formed(reply):
                    ban = bans.Ban(*map(int, values))
                write_behind.recorder.record_ban(ban)
                arguments[5] = 1
            elif kind == "refused":
                with well_formed(reply):
                    return Admission(rejection=KeyRejection(values[0].decode()))
            else:
                return reply
        raise RecordEvictedError(f"Redis lost the record of key {key.public_id} {MAX_ROUND_TRIPS} times.")

    def refresh(self, public_id: str) -> None:
        """Publish a key's record and its account's daily count from the database."""
        self._check_eviction_policy(public_id)
        (lease,) = self._run(LEASE, public_id, [token_hex(8), RECORD_TTL_MS])
        record = key_record.read(public_id) or key_record.build_unknown(public_id)
        _, _, counters = self._run(PUBLISH, public_id, build_publish_arguments(record, lease))
        if record.id and not counters and write_behind.recorder.has_unwritten_requests(record.account_id):
            # Redis lost the account's counters, and this process has counts that are not yet written.
            with suppress(Error):
                in_thread(write_behind.recorder.write)
            self._run(
                PUBLISH, public_id, build_publish_arguments(key_record.read(public_id) or record, lease)
            )

    def reconnect(self) -> None:
        """Reconnect, and check each server's eviction policy again: it may be another server."""
        self._checked.clear()
        self._scripts.reconnect()

    def _check_eviction_policy(self, public_id: str) -> None:
        """Warn, once per server, if it may evict counters that are in use."""
        server = self.get_shard(public_id)
        if server not in self._checked:
            self._checked.add(server)
            maxmemory, policy = self._run(MEMORY, public_id, [])
            if int(maxmemory) and policy != b"noeviction":
                logger.warning(EVICTION_WARNING, server, policy.decode())

    def publish_all(self, records: Iterable[KeyRecord]) -> list[tuple[bool, int]]:
        """Publish records in one round trip to one server. Blocks, so call it in a thread.

        Returns for each record whether it was stored, and the version that is stored now, which may be
        later.
        """
        calls = [(record.public_id, build_publish_arguments(record)) for record in records]
        replies = self._scripts.run_all(
            PUBLISH, [(get_redis_keys(public_id), rest) for public_id, rest in calls]
        )
        own = [
            self._check_reply(public_id, reply)
            for (public_id, _), reply in zip(calls, replies, strict=True)
        ]
        return [(bool(stored), version) for stored, version, _ in own]

    def record_write(self, public_id: str) -> None:
        self._run(RECORD_WRITE, public_id, [])

    def forget(self, public_id: str) -> None:
        self._run(FORGET, public_id, [])

    def _run(self, script: Script, public_id: str, arguments: Sequence[Any]) -> list[Any]:
        return self._check_reply(public_id, self._scripts.run(script, get_redis_keys(public_id), arguments))

    def _check_reply(self, public_id: str, reply: Any) -> list[Any]:
        """Check that a reply is for this key, and strip the public id.

        A reply for another key means that replies are out of step, so the connection is dropped.
        """
        if isinstance(reply, list) and reply and reply[0] == public_id.encode():
            return reply[1:]
        self._scripts.disconnect()
        if isinstance(reply, list) and reply and isinstance(reply[0], bytes):
            FOREIGN_REPLIES.inc()
            raise ForeignReplyError(f"The reply to {public_id} was for {reply[0][:20]!r}.")
        raise RedisUnavailableError(f"Unexpected reply: {reply!r}.")


def build_publish_arguments(record: KeyRecord, lease: bytes = b"") -> list[Any]:
    """Build the arguments of publish.lua. Without a lease they publish a change."""
    fields = {name: getattr(record, name) for name in (*TEXTS, *NUMBERS)} | {
        "networks": " ".join(record.networks),
        "revoked": int(record.revoked),
        "suspended": int(record.suspended),
        "per_minute": record.limits.per_minute,
        "per_day": record.limits.per_day,
    }
    ttl = RECORD_TTL_MS if record.id else ABSENT_TTL_MS
    here = min(record.day_here, record.day_used)
    head = [record.version, ttl, record.day, record.day_used - here, here, lease]
    return head + [part for pair in fields.items() for part in pair]


def published(public_id: str, fields: list[bytes]) -> KeyRecord:
    """Parse a key record from the flat reply of HGETALL."""
    words = [word.decode() for word in fields]
    known: dict[str, Any] = dict(zip(words[::2], words[1::2], strict=True))
    known |= {name: int(known[name]) for name in (*NUMBERS, "version", "per_minute", "per_day")}
    return KeyRecord(
        public_id=public_id,
        version=known["version"],
        limits=Limits(known["per_minute"], known["per_day"]),
        networks=tuple(known["networks"].split()),
        **{name: known[name] for name in (*TEXTS, *NUMBERS)},
    )


@contextmanager
def well_formed(reply: Any) -> Iterator[None]:
    """Raise RedisUnavailableError if parsing the reply fails."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RedisUnavailableError(f"Unexpected reply: {reply!r}.") from error


def parse_admission(key: KeyText, reply: list[Any]) -> Admission:
    """Parse the reply of admit.lua, and record the request."""
    with well_formed(reply):
        kind, key_id, account_id, scopes, *rest = reply
        per_minute, per_day, *counters, now, banned_until, pepper, admitted, write_age = map(int, rest)
        if kind != b"counted":
            raise ValueError(kind)
        may = frozenset(scopes.decode().split())
        caller = Caller(int(account_id), int(key_id), key.public_id, may, write_age)
        windows = build_windows(Limits(per_minute, per_day), Counters(*counters), now)
    decision = RateLimitDecision(bool(admitted), windows, now, banned_until)
    write_behind.recorder.count(caller, decision, in_redis=True)
    write_behind.recorder.rehash(key, caller.key_id, pepper)
    return Admission(caller=caller, decision=decision)


def parse_peek(key: KeyText, reply: list[Any]) -> Admission:
    """Parse the reply of peek.lua, and record that the key was used."""
    with well_formed(reply):
        kind, *rest = reply
        *counters, now, banned_until, peeks, peeks_end = map(int, rest[:8])
        if kind != b"seen":
            raise ValueError(kind)
        record = published(key.public_id, rest[8:])
        windows = build_windows(record.limits, Counters(*counters), now)
    caller = record.caller._replace(record=record)
    decision = peek_decision(windows, now, banned_until, peeks=peeks, peeks_end=peeks_end)
    write_behind.recorder.record_key_use(caller, now)
    write_behind.recorder.rehash(key, caller.key_id, record.pepper_number)
    return Admission(caller=caller, decision=decision)
