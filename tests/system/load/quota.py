"""What one quota decision costs, beside what else could decide it.

    python -m tests.system.load.quota [ROUNDS] [CALLS]

Starts a Redis of its own, and uses the database of DATABASE_URL, or an SQLite file of its own. Each round
runs every contender CALLS times in one thread; contenders take turns, and the medians of the rounds are
printed, with the processor time of this process alone (the rest is waiting for the server).
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path

import redis

from tests.support.servers import RedisServer, redis_server

KEYS = 200


def contenders(server: RedisServer) -> dict[str, Callable[[int], object]]:
    """Return what decides, each a function of the number of the request."""
    from django.core.cache import caches
    from django.test import RequestFactory
    from django_ratelimit.core import get_usage

    from accounts import key_text
    from accounts.models import Account, Actor, ApiKey, PlanCode
    from accounts.quota.database_store import DatabaseQuotaStore
    from accounts.quota.redis_store import RedisQuotaStore

    texts = []
    for number in range(KEYS):
        account = Account(name=f"Account {number}")
        account.assign(PlanCode.ENTERPRISE, 10**9, 10**9)
        key = key_text.split(ApiKey.objects.issue(account, by=Actor("benchmark"))[1])
        assert key is not None
        texts.append(key)
    plain = redis.Redis.from_url(server.url)
    caches["default"].clear()
    request = RequestFactory().get("/v1/pets")
    address = IPv4Address("192.0.2.1")
    in_redis, in_database = RedisQuotaStore(server.url), DatabaseQuotaStore()

    def incr_and_expire(number: int) -> None:
        name = f"plain:{number % KEYS}"
        plain.incr(name)
        plain.expire(name, 60)

    def two_rates(number: int) -> None:
        for rate in ("1000000000/m", "1000000000/d"):
            get_usage(request, group="b", key=lambda *_: str(number % KEYS), rate=rate, increment=True)

    return {
        "bare round trip (redis-py INCR)": lambda number: plain.incr(f"bare:{number % KEYS}"),
        "redis-py INCR, then EXPIRE": incr_and_expire,
        "django-ratelimit, two windows, Redis": two_rates,
        "quota store on Redis": lambda number: in_redis.admit(texts[number % KEYS], address),
        "quota store on the database": lambda number: in_database.admit(texts[number % KEYS], address),
    }


def measure(decide: Callable[[int], object], calls: int) -> tuple[float, float]:
    """Return the microseconds of one call, by the clock and on this process's processor."""
    wall, processor = time.perf_counter(), time.process_time()
    for number in range(calls):
        decide(number)
    return (time.perf_counter() - wall) / calls * 1e6, (time.process_time() - processor) / calls * 1e6


def main(rounds: int, calls: int) -> None:
    """Measure and print."""
    import django
    from django.conf import settings
    from django.core.management import call_command

    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as server:
        url = os.environ.get("DATABASE_URL") or f"sqlite:///{folder}/benchmark.sqlite3"
        from tests import environment

        os.environ |= environment.FIXED | {"REDIS_URL": server.url, "DATABASE_URL": url}
        os.environ["DJANGO_SETTINGS_MODULE"] = "petstore.settings"
        django.setup()
        settings.CACHES = {
            "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": server.url}
        }
        call_command("migrate", verbosity=0)
        found: dict[str, list[tuple[float, float]]] = {}
        for name, decide in (race := contenders(server)).items():
            measure(decide, KEYS)  # Warm.
            found[name] = []
        for _ in range(rounds):
            for name, decide in race.items():
                found[name].append(measure(decide, calls))
        show(found)


def show(found: dict[str, list[tuple[float, float]]]) -> None:
    """Print the medians, and the ratio to the bare round trip."""
    floor = statistics.median(wall for wall, _ in next(iter(found.values())))
    print(f"{'':38}{'us':>8}{'ratio':>8}{'CPU us':>8}{'a second and core':>20}")
    for name, rounds in found.items():
        wall = statistics.median(wall for wall, _ in rounds)
        processor = statistics.median(processor for _, processor in rounds)
        print(f"{name:38}{wall:8.0f}{wall / floor:8.2f}{processor:8.0f}{1e6 / processor:20,.0f}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:] or ("7", "3000")))
