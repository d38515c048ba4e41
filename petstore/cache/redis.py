"""A cache of counters that every machine shares, in Redis: see machine.py for what it counts."""

import logging
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT

from petstore.cache.machine import MachineCounters
from petstore.event_loop.redis_scripts import RedisUnavailableError, Script, Scripts, script

logger = logging.getLogger(__name__)

ASK_AGAIN_AFTER = 5  # Seconds.

# ARGV: a number, and the milliseconds for which the counter runs ('': without an end).
SET_FOR = """
local kept = tonumber(ARGV[2])
if not kept then redis.call('SET', KEYS[1], ARGV[1])
elseif kept > 0 then redis.call('SET', KEYS[1], ARGV[1], 'PX', kept)
else redis.call('DEL', KEYS[1]) end
return 1
"""
SET = script(SET_FOR)
ADD = script("if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end" + SET_FOR)
GET = script("return redis.call('GET', KEYS[1])")
INCREASE = script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
return redis.call('INCRBY', KEYS[1], ARGV[1])
""")
DELETE = script("return redis.call('DEL', KEYS[1])")


def else_here(ask: Callable[..., Any]) -> Any:
    """Have this machine's own file answer while Redis is away, and for a while after a question failed."""

    @wraps(ask)
    def asked(self: "SharedCounters", *arguments: Any, **named: Any) -> Any:
        if time.monotonic() >= self._away_until:
            try:
                found = ask(self, *arguments, **named)
            except RedisUnavailableError as error:
                if not self._away_until:  # Once for each outage.
                    logger.warning("Redis fails, so this machine counts by itself: %s", error)
                self._away_until = time.monotonic() + ASK_AGAIN_AFTER
            else:
                self._away_until = 0.0
                return found
        return getattr(super(SharedCounters, self), ask.__name__)(*arguments, **named)

    return asked


class SharedCounters(MachineCounters):
    """Integers by name in Redis, each in one round trip; `OPTIONS["redis"]` is its URL."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(location, params)
        self._scripts = Scripts(params["OPTIONS"]["redis"])
        self._away_until = 0.0

    def _run(self, script: Script, key: str, version: int | None, *arguments: int | str) -> Any:
        return self._scripts.run(script, [self.make_key(key, version)], arguments)

    def _milliseconds(self, timeout: float | None) -> int | str:
        seconds = self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout
        return "" if seconds is None else int(seconds * 1000)

    @else_here
    def add(
        self, key: str, value: int, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        """Set the counter unless it runs already; True if this call set it."""
        return bool(self._run(ADD, key, version, value, self._milliseconds(timeout)))

    @else_here
    def set(
        self, key: str, value: int, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        self._run(SET, key, version, value, self._milliseconds(timeout))

    @else_here
    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        found = self._run(GET, key, version)
        return default if found is None else int(found)

    @else_here
    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """Add to a running counter and return the sum. Raises ValueError when it doesn't run."""
        found = self._run(INCREASE, key, version, delta)
        if found is None:
            raise ValueError(f"No counter runs under {key!r}.")
        return int(found)

    @else_here
    def delete(self, key: str, version: int | None = None) -> bool:
        return bool(self._run(DELETE, key, version))


_of_this_process: dict[str, SharedCounters] = {}


def of_this_process(location: str, params: dict[str, Any]) -> SharedCounters:
    """Return the same counters each time: a backend for `settings.CACHES`.

    Django wants a cache of its own for each context, which on the event loop is each request.
    """
    url = params["OPTIONS"]["redis"]
    return _of_this_process.get(url) or _of_this_process.setdefault(url, SharedCounters(location, params))
