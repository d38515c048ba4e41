"""The quota store on Redis 7 or a cluster of it: one round trip proves the key, decides, and counts.

Three hashes, in one cluster slot for all keys of an account, because the tag in braces is the account's:

    petstore:{8 characters of the account}:key:6 characters   what the database says of a key; a minute
    petstore:{8 characters of the account}:quota              the account's windows; until the day ends
    petstore:{8 characters of the account}:standing:6         the key's strikes and ban; until they end
"""

from pathlib import Path
from typing import Any

from django.conf import settings

from accounts import keys, networks
from accounts.caller import Caller
from accounts.keys import ACCOUNT_ID_LENGTH, KeyText
from accounts.quota import bans, usage
from accounts.quota import facts as key_facts
from accounts.quota.admission import Admission
from accounts.quota.database import SKEW
from accounts.quota.facts import KeyFacts, KeyRefusal
from accounts.quota.lookups import lookups
from accounts.quota.verdict import DAY, MINUTE, SECOND, Limits, Verdict, account_windows
from petstore.addresses import Address
from petstore.engine.scripts import RedisUnavailableError, Script, Scripts, script

FACTS_KEPT = 60_000  # Milliseconds. Changes are published; this bounds what nobody published.
ABSENT_KEPT = 10_000  # Milliseconds for which a key that the database does not have is remembered.

CONSTANTS = f"""
local SECOND, MINUTE, DAY, SKEW = {SECOND}, {MINUTE}, {DAY}, {SKEW}
local STRIKE_WINDOW, MIN_STRIKES = {bans.STRIKE_WINDOW}, {bans.MIN_STRIKES}
local BAN_LENGTHS, STEP_BACK_AFTER = {{{", ".join(map(str, bans.BAN_LENGTHS))}}}, {bans.STEP_BACK_AFTER}
"""


def from_file(name: str) -> Script:
    """Return a Lua script with the constants that Python shares with it."""
    return script(CONSTANTS + Path(__file__).with_name(name).read_text())


ADMIT = from_file("admit.lua")
PUBLISH = from_file("publish.lua")
FORGET = script("return redis.call('DEL', KEYS[1])")
NOTE_WRITE = from_file("note_write.lua")


def names(public_id: str) -> list[str]:
    """Return the names of a key's three hashes."""
    account, key = public_id[:ACCOUNT_ID_LENGTH], public_id[ACCOUNT_ID_LENGTH:]
    start = f"petstore:{{{account}}}:"
    return [f"{start}key:{key}", f"{start}quota", f"{start}standing:{key}"]


class RedisQuotaStore:
    """Counts in Redis. Every method raises RedisUnavailableError when Redis fails."""

    def __init__(self, url: str) -> None:
        self._scripts = Scripts(url)

    def ping(self) -> None:
        """Raise RedisUnavailableError unless Redis can run the scripts."""
        self._run(PUBLISH, names("probe"), [0, 1, "0", 0, 0, "probe", "1"])

    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """Prove the key and count the request: see QuotaStore."""
        arguments: list[Any] = ["" if now is None else now, "", int(writes)]
        for number, pepper in settings.API_KEY_PEPPERS.items():
            arguments += [number, keys.digest(key, pepper)]
        reply = self._run(ADMIT, names(key.public_id), arguments)
        if reply[0] == b"miss":
            if not lookups.take(address):
                return Admission(refusal=KeyRefusal.UNCHECKED)
            facts = key_facts.read(key.public_id)
            self.publish(facts or key_facts.absent(key.public_id))
            reply = self._run(ADMIT, names(key.public_id), arguments)
        if reply[0] == b"networks":  # Rare: such a key costs a second round trip.
            if not networks.allowed(address, reply[1].decode().split()):
                return Admission(refusal=KeyRefusal.ELSEWHERE)
            arguments[1] = reply[1]
            reply = self._run(ADMIT, names(key.public_id), arguments)
        return read_reply(key, reply)

    def publish(self, facts: KeyFacts, *, forget_standing: bool = False) -> None:
        """Tell every worker what the database says of a key."""
        fields = {
            "id": facts.id,
            "account_id": facts.account_id,
            "digest": facts.digest,
            "pepper_number": facts.pepper_number,
            "scopes": facts.scopes,
            "networks": " ".join(facts.networks),
            "expires_at": facts.expires_at,
            "revoked": int(facts.revoked),
            "per_minute": facts.limits.per_minute,
            "per_day": facts.limits.per_day,
            "banned_until": facts.banned_until,
            "ban_level": facts.ban_level,
        }
        kept = FACTS_KEPT if facts.id else ABSENT_KEPT
        head = [facts.read_at, kept, int(forget_standing), facts.day, facts.day_used]
        pairs = [part for pair in fields.items() for part in pair]
        self._run(PUBLISH, names(facts.public_id), head + pairs)

    def note_write(self, public_id: str) -> None:
        """Note that the key's account may have written just now."""
        self._run(NOTE_WRITE, names(public_id), [])

    def forget(self, public_id: str) -> None:
        """Drop what is known of a key."""
        self._run(FORGET, names(public_id), [])

    def _run(self, script: Script, hashes: list[str], arguments: list[Any]) -> Any:
        reply = self._scripts.run(script, hashes, arguments)
        if not isinstance(reply, list if script is ADMIT else int):
            raise RedisUnavailableError(f"It answered {reply!r}.")
        return reply


def read_reply(key: KeyText, reply: Any) -> Admission:
    """Return the admission in a reply of admit.lua."""
    try:
        if reply[0] == b"refused":
            return Admission(refusal=KeyRefusal(reply[1].decode()))
        if reply[0] != b"counted":
            raise ValueError(reply[0])
        _, key_id, account_id, scopes, *rest = reply
        numbers = [int(number) for number in rest]
        per_minute, per_day, admitted, minute_ends, minute_used, day, day_used, now = numbers[:8]
        banned_until, strikes, level, pepper_number, since_write = numbers[8:]
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        raise RedisUnavailableError(f"It answered {reply!r}.") from error
    windows = account_windows(
        Limits(per_minute, per_day),
        minute_ends=minute_ends,
        minute_used=minute_used,
        day=day,
        day_used=day_used,
        now=now,
    )
    verdict = Verdict(bool(admitted), windows, now, banned_until)
    may = frozenset(scopes.decode().split())
    caller = Caller(int(account_id), int(key_id), key.public_id, may, since_write)
    usage.recorder.count(caller, verdict, elsewhere=True)
    usage.recorder.rehash(key, caller.key_id, pepper_number)
    if strikes:
        usage.recorder.ban(bans.Ban(caller.key_id, now, banned_until, level, strikes))
    return Admission(caller=caller, verdict=verdict)
