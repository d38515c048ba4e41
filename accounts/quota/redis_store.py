"""The quota store on Redis 7 or a cluster of it: one round trip proves the key, decides, and counts.

Four hashes, in one cluster slot for all keys of an account, because the tag in braces is the account's:

    petstore:{8 characters of the account}:key:6 characters   what the database says of a key; a minute
    petstore:{8 characters of the account}:quota              the account's windows; until the day ends
    petstore:{8 characters of the account}:standing:6         the key's refusals and ban; until they end
    petstore:{8 characters of the account}:looks:6            its looks; until their minute ends
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
from accounts.keys.identity import Caller, KeyFacts
from accounts.keys.key_format import ACCOUNT_ID_LENGTH, KeyText
from accounts.quota import bans, key_record
from accounts.quota.admission import Admission
from accounts.quota.anonymous import lookups
from accounts.quota.database_store import NIGHT_SKEW, SKEW
from accounts.quota.key_record import KeyRefusal
from accounts.quota.limits import (
    DAY,
    MINUTE,
    SECOND,
    Counters,
    Limits,
    RateLimitDecision,
    account_windows,
    look_verdict,
)
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.event_loop.redis_scripts import RedisUnavailableError, Script, Scripts, script
from petstore.event_loop.threads import in_thread
from petstore.observability.metrics import FOREIGN_REPLIES

logger = logging.getLogger(__name__)

FACTS_KEPT = 60_000  # Milliseconds. Changes are published; this bounds what nobody published.
ABSENT_KEPT = 10_000  # Milliseconds for which a key that the database does not have is remembered.
TEXTS = ("digest", "scopes", "account_name", "plan", "name")  # What is published of a key, and
NUMBERS = (
    "id", "account_id", "pepper_number", "expires_at", "banned_until", "ban_level", "lifts",
    "account_created_at", "created_at", "last_used_at",
)  # fmt: skip
ROUNDS = 8  # Steps with one request: 3 are usual at most, 5 where facts end between two of them.

# public_id(): whom a reply is for, from the name that was asked for.
CONSTANTS = f"""
local SECOND, MINUTE, DAY, SKEW, NIGHT_SKEW = {SECOND}, {MINUTE}, {DAY}, {SKEW}, {NIGHT_SKEW}
local STRIKE_WINDOW, FIRST_STRIKE_AFTER = {bans.STRIKE_WINDOW}, {bans.FIRST_STRIKE_AFTER}
local STRIKE_INTERVAL, STRIKES_TO_BAN = {bans.STRIKE_INTERVAL}, {bans.STRIKES_TO_BAN}
local MIN_REFUSALS_TO_BAN = {bans.MIN_REFUSALS_TO_BAN}
local THRESHOLDS = {{{", ".join(map(str, THRESHOLDS))}}}
local BAN_LENGTHS, STEP_BACK_AFTER = {{{", ".join(map(str, bans.BAN_LENGTHS))}}}, {bans.STEP_BACK_AFTER}
local function public_id()
    local account = string.sub(KEYS[1], 11, {10 + ACCOUNT_ID_LENGTH})
    return account .. string.sub(KEYS[1], {17 + ACCOUNT_ID_LENGTH})
end
"""


def from_files(*names: str, idempotent: bool) -> Script:
    """Return a Lua script of these files, with the constants that Python shares with it."""
    parts = [Path(__file__).with_name(name).read_text() for name in names]
    return script(CONSTANTS + "".join(parts), idempotent=idempotent)


ADMIT = from_files("known.lua", "admit.lua", idempotent=False)
LOOK = from_files("known.lua", "look.lua", idempotent=False)
LEASE = from_files("lease.lua", idempotent=True)
PUBLISH = from_files("publish.lua", idempotent=True)
NOTE_WRITE = from_files("note_write.lua", idempotent=True)
FORGET = script(CONSTANTS + "redis.call('DEL', KEYS[1]) return {public_id()}", idempotent=True)


# INFO, because managed servers often forbid CONFIG GET.
MEMORY = script(
    CONSTANTS
    + """
local info = redis.pcall('INFO', 'memory')
if type(info) ~= 'string' then info = '' end
return {public_id(), string.match(info, 'maxmemory:(%d+)') or '0',
    string.match(info, 'maxmemory_policy:(%S+)') or 'noeviction'}
""",
    idempotent=True,
)
EVICTS = (
    "Redis %s may drop quota counters when its memory is full (maxmemory-policy %s): an account's minute "
    "then starts anew. Set maxmemory-policy to noeviction."
)


class ForeignReplyError(RedisUnavailableError):
    """A reply was another key's: nothing that comes by this connection can be trusted."""


class RedisUndecidedError(Exception):
    """Redis is well, but loses what it is told before it can be used: its memory is full, as a rule."""


def names(public_id: str) -> list[str]:
    account, key = public_id[:ACCOUNT_ID_LENGTH], public_id[ACCOUNT_ID_LENGTH:]
    start = f"petstore:{{{account}}}:"
    return [f"{start}key:{key}", f"{start}quota", f"{start}standing:{key}"]


def names_to_look(public_id: str) -> list[str]:
    account, key = public_id[:ACCOUNT_ID_LENGTH], public_id[ACCOUNT_ID_LENGTH:]
    return [*names(public_id), f"petstore:{{{account}}}:looks:{key}"]


class RedisQuotaStore:
    """Counts in Redis. Every method raises RedisUnavailableError when Redis fails."""

    def __init__(self, url: str) -> None:
        self._scripts = Scripts(url)
        self._seen: set[str] = set()  # The servers of which it is known whether they may drop counters.

    def ping(self, public_id: str = "--------------") -> None:
        """Raise RedisUnavailableError unless Redis can run the scripts for this key's account."""
        nobody = public_id[:ACCOUNT_ID_LENGTH] + "-" * (len(public_id) - ACCOUNT_ID_LENGTH)
        self._run(PUBLISH, nobody, [0, 1, 0, 0, 0, "", "ping", "1"])

    def shard(self, public_id: str) -> str:
        """Return the node of a cluster that has the key's account; '' where there is one server."""
        return self._scripts.node(names(public_id)[0]) if self._scripts.is_cluster else ""

    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """Prove the key and count the request: see QuotaStore.

        Redis counts in the last step, so nothing before it counts twice. Raises RedisUndecidedError when
        there is no last one.
        """
        reply = self._prove(ADMIT, names(key.public_id), key, address, now=now, writes=writes)
        return reply if isinstance(reply, Admission) else read_reply(key, reply)

    def look(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """Prove the key and show what is left: see QuotaStore. Raises RedisUndecidedError, too."""
        reply = self._prove(LOOK, names_to_look(key.public_id), key, address, now=now, writes=False)
        return reply if isinstance(reply, Admission) else read_look(key, reply)

    def _prove(
        self,
        script: Script,
        names: list[str],
        key: KeyText,
        address: Address,
        *,
        now: int | None,
        writes: bool,
    ) -> Admission | list[Any]:
        """Run a script that begins with known.lua; return its last reply, or a refusal of the key's."""
        arguments: list[Any] = ["" if now is None else now, "", int(writes), "", "", ""]
        for number, pepper in settings.API_KEY_PEPPERS.items():
            arguments += [number, key_format.digest(key, pepper)]
        for _ in range(ROUNDS):
            reply = self._own(key.public_id, self._scripts.run(script, names, arguments))
            with well_formed(reply):
                kind, facts = reply[0].decode(), reply[1:]
            if kind == "miss":
                if not lookups.take(address):
                    return Admission(refusal=KeyRefusal.UNCHECKED)
                self.refresh(key.public_id)
            elif kind == "networks":  # Rare: such a key costs a second round trip.
                with well_formed(reply):
                    allowed = facts[0].decode()
                if not networks.allowed(address, allowed.split()):
                    return Admission(refusal=KeyRefusal.ELSEWHERE)
                arguments[1] = allowed
            elif kind == "reaches":  # Rare, too: twice a day.
                with well_formed(reply):
                    account_id, day, limit, used = map(int, facts)
                warned = write_behind.recorder.warn_first(account_id, day, limit, used)
                arguments[3:5] = day if warned else "-", used
            elif kind == "bans":
                with well_formed(reply):
                    ban = bans.Ban(*map(int, facts))
                write_behind.recorder.ban(ban)
                arguments[5] = 1
            elif kind == "refused":
                with well_formed(reply):
                    return Admission(refusal=KeyRefusal(facts[0].decode()))
            else:
                return reply
        raise RedisUndecidedError(f"It has forgotten the key {key.public_id} {ROUNDS} times.")

    def refresh(self, public_id: str) -> None:
        """Have Redis know of a key, and of its account's day, what the database knows now."""
        self._look_at_memory(public_id)
        (lease,) = self._run(LEASE, public_id, [token_hex(8), FACTS_KEPT])
        facts = key_record.read(public_id) or key_record.absent(public_id)
        _, _, counters = self._run(PUBLISH, public_id, publication(facts, lease))
        if facts.id and not counters and write_behind.recorder.owes(facts.account_id):
            # Redis lost the account's counters, and what this process knows of them is not yet written.
            with suppress(Error):
                in_thread(write_behind.recorder.write)
            self._run(PUBLISH, public_id, publication(key_record.read(public_id) or facts, lease))

    def look_again(self) -> None:
        """Connect anew, and look at each server's settings once more: another may have taken its place."""
        self._seen.clear()
        self._scripts.reconnect()

    def _look_at_memory(self, public_id: str) -> None:
        """Warn, once for each server, if it may drop counters while they are needed."""
        server = self.shard(public_id)
        if server not in self._seen:
            self._seen.add(server)
            most, policy = self._run(MEMORY, public_id, [])
            if int(most) and policy != b"noeviction":
                logger.warning(EVICTS, server, policy.decode())

    def publish_all(self, keys_facts: Iterable[KeyFacts]) -> list[tuple[bool, int]]:
        """Tell every worker what the database says of these keys, in one round trip to one server.

        In a thread that may block. Return of each whether it was taken, and the version that Redis has now:
        a later one stays.
        """
        calls = [(facts.public_id, publication(facts)) for facts in keys_facts]
        replies = self._scripts.run_all(PUBLISH, [(names(public_id), rest) for public_id, rest in calls])
        own = [self._own(public_id, reply) for (public_id, _), reply in zip(calls, replies, strict=True)]
        return [(bool(stored), version) for stored, version, _ in own]

    def note_write(self, public_id: str) -> None:
        self._run(NOTE_WRITE, public_id, [])

    def forget(self, public_id: str) -> None:
        self._run(FORGET, public_id, [])

    def _run(self, script: Script, public_id: str, arguments: Sequence[Any]) -> list[Any]:
        return self._own(public_id, self._scripts.run(script, names(public_id), arguments))

    def _own(self, public_id: str, reply: Any) -> list[Any]:
        """Return the rest of a reply that is for this key.

        Every reply says whom it is for. One that is for another may be followed by more of them, so its
        connection ends.
        """
        if isinstance(reply, list) and reply and reply[0] == public_id.encode():
            return reply[1:]
        self._scripts.disconnect()
        if isinstance(reply, list) and reply and isinstance(reply[0], bytes):
            FOREIGN_REPLIES.inc()
            raise ForeignReplyError(f"A reply for {reply[0][:20]!r} came to {public_id}.")
        raise RedisUnavailableError(f"Unexpected reply: {reply!r}")


def publication(facts: KeyFacts, lease: bytes = b"") -> list[Any]:
    """Return the arguments of publish.lua; without a lease they are of a change."""
    fields = {name: getattr(facts, name) for name in (*TEXTS, *NUMBERS)} | {
        "networks": " ".join(facts.networks),
        "revoked": int(facts.revoked),
        "suspended": int(facts.suspended),
        "per_minute": facts.limits.per_minute,
        "per_day": facts.limits.per_day,
    }
    kept = FACTS_KEPT if facts.id else ABSENT_KEPT
    here = min(facts.day_here, facts.day_used)
    head = [facts.version, kept, facts.day, facts.day_used - here, here, lease]
    return head + [part for pair in fields.items() for part in pair]


def published(public_id: str, fields: list[bytes]) -> KeyFacts:
    """Return the facts that publish.lua has stored, from pairs of a field and its value."""
    words = [word.decode() for word in fields]
    known: dict[str, Any] = dict(zip(words[::2], words[1::2], strict=True))
    known |= {name: int(known[name]) for name in (*NUMBERS, "version", "per_minute", "per_day")}
    return KeyFacts(
        public_id=public_id,
        version=known["version"],
        limits=Limits(known["per_minute"], known["per_day"]),
        networks=tuple(known["networks"].split()),
        **{name: known[name] for name in (*TEXTS, *NUMBERS)},
    )


@contextmanager
def well_formed(reply: Any) -> Iterator[None]:
    """Raise RedisUnavailableError for a reply of another form than the scripts give."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RedisUnavailableError(f"Unexpected reply: {reply!r}") from error


def read_reply(key: KeyText, reply: list[Any]) -> Admission:
    """Return what admit.lua decided, and note the request."""
    with well_formed(reply):
        kind, key_id, account_id, scopes, *rest = reply
        per_minute, per_day, *counters, now, banned_until, pepper, admitted, since_write = map(int, rest)
        if kind != b"counted":
            raise ValueError(kind)
        may = frozenset(scopes.decode().split())
        caller = Caller(int(account_id), int(key_id), key.public_id, may, since_write)
        windows = account_windows(Limits(per_minute, per_day), Counters(*counters), now)
    decision = RateLimitDecision(bool(admitted), windows, now, banned_until)
    write_behind.recorder.count(caller, decision, elsewhere=True)
    write_behind.recorder.rehash(key, caller.key_id, pepper)
    return Admission(caller=caller, decision=decision)


def read_look(key: KeyText, reply: list[Any]) -> Admission:
    """Return what look.lua saw, and note that the key was used."""
    with well_formed(reply):
        kind, *rest = reply
        *counters, now, banned_until, looks, looks_end = map(int, rest[:8])
        if kind != b"seen":
            raise ValueError(kind)
        facts = published(key.public_id, rest[8:])
        windows = account_windows(facts.limits, Counters(*counters), now)
    caller = facts.caller._replace(facts=facts)
    decision = look_verdict(windows, now, banned_until, looks=looks, looks_end=looks_end)
    write_behind.recorder.use(caller, now)
    write_behind.recorder.rehash(key, caller.key_id, facts.pepper_number)
    return Admission(caller=caller, decision=decision)
