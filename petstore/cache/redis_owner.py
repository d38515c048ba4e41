"""Commands that ask, or say, which database Redis belongs to; Scripts checks it for requests."""

from itertools import islice
from time import sleep

from django.conf import settings
from django.core.management.base import CommandError

from petstore.db.identity import identity
from petstore.event_loop.redis_scripts import (
    CHECK_EVERY,
    OWNER,
    TIMEOUT,
    ForeignRedisError,
    RedisUnavailableError,
    Scripts,
)

ACCOUNTS = "petstore:{*"  # Names that begin with an account: see accounts/quota/redis_store.py.
AT_ONCE = 1_000  # Names.


def check() -> None:
    """Raise CommandError if Redis belongs to another database; while it is down, nothing can be said."""
    if settings.REDIS_URL:
        scripts = Scripts(settings.REDIS_URL)
        try:
            scripts.check_owner()
        except ForeignRedisError as error:
            raise CommandError(str(error)) from None
        except RedisUnavailableError:
            pass
        finally:
            scripts.close()


def claim() -> tuple[str, str]:
    """Make Redis belong to this database, and empty it; return this one's name and the previous owner's.

    Services of another database may go on until they check again; what they publish by then goes, too.
    """
    from redis.exceptions import RedisError  # Slow to load.

    from petstore.event_loop.redis_client import RedisClient

    if not settings.REDIS_URL:
        raise CommandError("There is no Redis to claim: REDIS_URL is not set.")
    database = identity()
    try:
        client = RedisClient(settings.REDIS_URL, TIMEOUT)
        try:
            client.redis.set(OWNER, database, nx=True)
            owner = client.redis.get(OWNER).decode()
            if owner != database:
                client.redis.set(OWNER, f"{database}, which is claiming it")
                sleep(CHECK_EVERY + 2 * TIMEOUT)
            names = client.redis.scan_iter(match=ACCOUNTS, count=AT_ONCE)  # On all nodes.
            while some := list(islice(names, AT_ONCE)):
                client.redis.unlink(*some)
            client.redis.set(OWNER, database)
        finally:
            client.close()
    except RedisError as error:
        raise CommandError(f"Redis could not be claimed: {error}") from None
    return database, owner
