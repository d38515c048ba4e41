"""Lets commands inspect Redis, and check or claim its ownership. Requests check it in redis_scripts."""

from contextlib import closing, suppress
from itertools import islice
from time import sleep
from typing import NamedTuple

from django.conf import settings
from django.core.management.base import CommandError

from petstore.db.identity import get_database_id
from petstore.event_loop.redis_scripts import (
    CHECK_INTERVAL,
    OWNER_KEY,
    TIMEOUT,
    RedisOwnershipError,
    RedisUnavailableError,
    ScriptRunner,
    make_script,
)

ACCOUNT_KEYS = "petstore:{*"  # See accounts/quota/redis_store.py.
BATCH_SIZE = 1_000
# Uses INFO, because managed servers often forbid CONFIG GET.
INSPECT = make_script("""
local info = redis.pcall('INFO', 'memory')
if type(info) ~= 'string' then info = '' end
local seconds, microseconds = unpack(redis.call('TIME'))
return {redis.call('GET', KEYS[1]) or '', seconds .. string.format('.%06d', microseconds),
    string.match(info, 'maxmemory:(%d+)') or '0',
    string.match(info, 'maxmemory_policy:(%S+)') or 'noeviction'}
""")


class RedisState(NamedTuple):
    owner: str  # May be empty.
    time: float  # Unix time.
    eviction_policy: str  # Empty if Redis evicts nothing.


def check() -> None:
    """Claim Redis if it has no owner. Raises CommandError if another database owns it.

    Does nothing without REDIS_URL, or while Redis is unavailable.
    """
    if not settings.REDIS_URL:
        return
    with closing(ScriptRunner(settings.REDIS_URL)) as scripts, suppress(RedisUnavailableError):
        try:
            scripts.check_owner()
        except RedisOwnershipError as error:
            raise CommandError(str(error)) from None


def inspect() -> RedisState:
    """Read the state of the node that stores the owner. Raises CommandError."""
    from redis.exceptions import RedisError

    from petstore.event_loop.redis_client import RedisClient

    try:
        with closing(RedisClient(settings.REDIS_URL, TIMEOUT)) as client:
            owner, timestamp, max_memory, policy = client.run(INSPECT, [OWNER_KEY], [])
    except RedisError as error:
        raise CommandError(f"Redis failed: {error}") from None
    evicts = int(max_memory) and policy != b"noeviction"
    return RedisState(owner.decode(), float(timestamp), policy.decode() if evicts else "")


def claim() -> tuple[str, str]:
    """Claim Redis for this database and delete the keys of accounts.

    Before deleting, waits until the services of the previous owner have checked the owner again, so that
    everything they publish until then is deleted as well. Returns the identifiers of this database and of
    the previous owner, which may be the same. Raises CommandError.
    """
    from redis.exceptions import RedisError  # Imported late, because redis-py loads slowly.

    from petstore.event_loop.redis_client import RedisClient

    if not settings.REDIS_URL:
        raise CommandError("REDIS_URL is not set. Set it to the Redis to claim.")
    database = get_database_id()
    try:
        with closing(RedisClient(settings.REDIS_URL, TIMEOUT)) as client:
            client.redis.set(OWNER_KEY, database, nx=True)
            owner = client.redis.get(OWNER_KEY).decode()
            if owner != database:
                client.redis.set(OWNER_KEY, f"{database}, which is claiming it")
                sleep(CHECK_INTERVAL + 2 * TIMEOUT)
            keys = client.redis.scan_iter(match=ACCOUNT_KEYS, count=BATCH_SIZE)  # Scans all nodes.
            while batch := list(islice(keys, BATCH_SIZE)):
                client.redis.unlink(*batch)
            client.redis.set(OWNER_KEY, database)
    except RedisError as error:
        raise CommandError(f"Redis could not be claimed: {error}") from None
    return database, owner
