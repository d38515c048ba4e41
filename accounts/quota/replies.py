"""What the quota's scripts answer after the public id of the key: see known.lua, admit.lua, look.lua.

Every function raises RedisUnavailableError for a reply of another form.
"""

from typing import Any

from accounts import bans
from accounts.caller import Caller, Profile
from accounts.key_text import KeyText
from accounts.limits import Limits, Verdict, account_windows, look_verdict
from accounts.quota.admission import Admission
from accounts.quota.key_record import KeyRefusal
from accounts.usage import write_behind
from petstore.loop.scripts import RedisUnavailableError

MALFORMED = (ValueError, IndexError, TypeError, AttributeError)


def text_of(reply: list[Any]) -> str:
    """Return the text after a reply's kind."""
    try:
        return str(reply[1].decode())
    except MALFORMED as error:
        raise RedisUnavailableError(f"It answered {reply!r}.") from error


def read_refusal(reply: list[Any]) -> KeyRefusal:
    try:
        return KeyRefusal(text_of(reply))
    except ValueError as error:
        raise RedisUnavailableError(f"It answered {reply!r}.") from error


def warn_first(reply: list[Any]) -> tuple[int | str, int]:
    """Warn of what a request is about to reach; return what admit.lua is to be told of that."""
    try:
        account_id, day, limit, used = map(int, reply[1:])
    except MALFORMED as error:
        raise RedisUnavailableError(f"It answered {reply!r}.") from error
    done = write_behind.recorder.warn_first(account_id, day, limit, used)
    return day if done else "-", used


def put_on_record(reply: list[Any]) -> None:
    """Record a ban that is about to begin."""
    try:
        ban = bans.Ban(*map(int, reply[1:]))
    except MALFORMED as error:
        raise RedisUnavailableError(f"It answered {reply!r}.") from error
    write_behind.recorder.ban(ban)


def read_reply(key: KeyText, reply: Any) -> Admission:
    """Return what admit.lua decided, and note the request."""
    try:
        if reply[0] != b"counted":
            raise ValueError(reply[0])
        _, key_id, account_id, scopes, *rest = reply
        numbers = [int(number) for number in rest]
        per_minute, per_day, admitted, minute_ends, minute_used, day, day_used, now = numbers[:8]
        banned_until, pepper_number, since_write = numbers[8:]
        may = frozenset(scopes.decode().split())
        caller = Caller(int(account_id), int(key_id), key.public_id, may, since_write)
    except MALFORMED as error:
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
    write_behind.recorder.count(caller, verdict, elsewhere=True)
    write_behind.recorder.rehash(key, caller.key_id, pepper_number)
    return Admission(caller=caller, verdict=verdict)


def read_look(key: KeyText, reply: Any) -> Admission:
    """Return what look.lua saw, and note that the key was used."""
    try:
        if reply[0] != b"seen":
            raise ValueError(reply[0])
        _, key_id, account_id, scopes, *rest = reply
        numbers = [int(number) for number in rest[:-4]]
        per_minute, per_day, minute_ends, minute_used, day, day_used, now, banned_until = numbers[:8]
        looks, looks_end, pepper_number, expires_at, account_created_at, created_at, used_at = numbers[8:]
        networks, account_name, plan, name = (text.decode() for text in rest[-4:])
        profile = Profile(
            account_name=account_name,
            plan=plan,
            account_created_at=account_created_at,
            key_name=name,
            networks=tuple(networks.split()),
            created_at=created_at,
            expires_at=expires_at,
            last_used_at=used_at,
        )
        may = frozenset(scopes.decode().split())
        caller = Caller(int(account_id), int(key_id), key.public_id, may, profile=profile)
    except MALFORMED as error:
        raise RedisUnavailableError(f"It answered {reply!r}.") from error
    windows = account_windows(
        Limits(per_minute, per_day),
        minute_ends=minute_ends,
        minute_used=minute_used,
        day=day,
        day_used=day_used,
        now=now,
    )
    write_behind.recorder.use(caller, now)
    write_behind.recorder.rehash(key, caller.key_id, pepper_number)
    return Admission(
        caller=caller,
        verdict=look_verdict(windows, now, banned_until, looks=looks, looks_end=looks_end),
    )
