"""A Django cache backend with counters in Redis that all machines share.

While Redis is unavailable, each machine counts in its own file (local.py).
"""

import logging
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT

from petstore.cache.local import LocalCounters
from petstore.event_loop.redis_scripts import RedisUnavailableError, Script, ScriptRunner, make_script

logger = logging.getLogger(__name__)

RETRY_AFTER = 5  # Seconds.

# ARGV: the value, and the milliseconds until it expires, or '' if it never expires.
SET_WITH_EXPIRY = """
local ttl = tonumber(ARGV[2])
if not ttl then redis.call('SET', KEYS[1], ARGV[1])
elseif ttl > 0 then redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
else redis.call('DEL', KEYS[1]) end
return 1
"""
SET = make_script(SET_WITH_EXPIRY)
ADD = make_script("if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end" + SET_WITH_EXPIRY)
GET = make_script("return redis.call('GET', KEYS[1])")
INCREMENT = make_script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
return redis.call('INCRBY', KEYS[1], ARGV[1])
""")
DELETE = make_script("return redis.call('DEL', KEYS[1])")


def with_fallback(method: Callable[..., Any]) -> Any:
    """Use this machine's file for RETRY_AFTER seconds after Redis has failed."""

    @wraps(method)
    def wrapper(self: "RedisCounters", *arguments: Any, **options: Any) -> Any:
        if time.monotonic() >= self._retry_at:
            try:
                result = method(self, *arguments, **options)
            except RedisUnavailableError as error:
                if not self._retry_at:  # Log each outage only once.
                    logger.warning("Redis is unavailable, so this machine uses local counters: %s", error)
                self._retry_at = time.monotonic() + RETRY_AFTER
            else:
                self._retry_at = 0.0
                return result
        return getattr(super(RedisCounters, self), method.__name__)(*arguments, **options)

    return wrapper


class RedisCounters(LocalCounters):
    """Counters in the Redis that `OPTIONS["redis"]` names."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(location, params)
        self._scripts = ScriptRunner(params["OPTIONS"]["redis"])
        self._retry_at = 0.0

    def _run(self, script: Script, key: str, version: int | None, *arguments: int | str) -> Any:
        return self._scripts.run(script, [self.make_key(key, version)], arguments)

    def _get_ttl_ms(self, timeout: float | None) -> int | str:
        seconds = self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout
        return "" if seconds is None else int(seconds * 1000)

    @with_fallback
    def add(
        self, key: str, value: int, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        return bool(self._run(ADD, key, version, value, self._get_ttl_ms(timeout)))

    @with_fallback
    def set(
        self, key: str, value: int, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        self._run(SET, key, version, value, self._get_ttl_ms(timeout))

    @with_fallback
    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        count = self._run(GET, key, version)
        return default if count is None else int(count)

    @with_fallback
    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        count = self._run(INCREMENT, key, version, delta)
        if count is None:
            raise ValueError(f"Counter {key!r} not found.")
        return int(count)

    @with_fallback
    def delete(self, key: str, version: int | None = None) -> bool:
        return bool(self._run(DELETE, key, version))


_instances: dict[str, RedisCounters] = {}


def get_redis_counters(location: str, params: dict[str, Any]) -> RedisCounters:
    """Return the instance for a URL. Django would create one for each request on the event loop."""
    url = params["OPTIONS"]["redis"]
    return _instances.get(url) or _instances.setdefault(url, RedisCounters(location, params))
