"""How the event loop comes to a connection of Django's: libpq's own way of connecting would block it."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache

import psycopg
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

SPARE_SECONDS = 1.0  # For what Django says to a new connection.
CONNECTING = 4  # Threads: so many connections are made at once.
# What is asked on the loop is short and has its index. Of a small table, as any new one is, PostgreSQL
# would read all, and keep to that plan while it grows, until it counts its rows again.
PLANNING = "-c enable_seqscan=off -c jit=off"


@cache
def connecting() -> ThreadPoolExecutor:
    """Return this process's threads for connecting; those for what else blocks may all be taken."""
    return ThreadPoolExecutor(CONNECTING, thread_name_prefix="connecting")


def opening_limit(alias: str) -> float:
    """Return the seconds that opening a connection may take: each host has DATABASE_CONNECT_TIMEOUT."""
    options = settings.DATABASES[alias]
    seconds = float(options["OPTIONS"].get("connect_timeout", 2))
    hosts = str(options["HOST"]).count(",") + 1
    return seconds * hosts + SPARE_SECONDS


async def connect_in_thread(alias: str) -> BaseDatabaseWrapper:
    """Return a new connection of Django's, which belongs to no thread. Raises what Django raises."""
    call = connecting().submit(connect, alias)
    try:
        return await asyncio.wrap_future(call)
    except BaseException:
        call.add_done_callback(close_unclaimed)  # A thread can't be stopped.
        raise


def connect(alias: str) -> BaseDatabaseWrapper:
    wrapper = connections.create_connection(alias)
    options = wrapper.settings_dict["OPTIONS"]
    if options.get("prepare_threshold") is not None:  # It is None for a pooler, which takes no options.
        options = options | {"options": f"{options.get('options', '')} {PLANNING}".strip()}
        wrapper.settings_dict = wrapper.settings_dict | {"OPTIONS": options}
    wrapper.connect()
    return wrapper


def close_unclaimed(call: "Future[BaseDatabaseWrapper]") -> None:
    if not call.cancelled() and call.exception() is None:
        with suppress(psycopg.Error):
            call.result().connection.close()
