"""Opens Django's database connections in threads, because connecting would block the event loop."""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import TypeVar

import psycopg
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from petstore.db.event_loop.errors import ConnectionFailedError
from petstore.db.event_loop.greenlets import TICK, timeout_in_ticks

Result = TypeVar("Result")

RECONNECT_DELAY = 0.5  # Seconds, after a connection could not be opened.
SETUP_SECONDS = 1.0  # Time for the statements that Django runs on a new connection.
CONNECT_THREADS = 4
# Every query on the loop has an index. PostgreSQL would plan a sequential scan for a small table, and keep
# that plan for prepared statements while the table grows, until the next ANALYZE. It would also merge a key
# with all accounts if the statistics have keys of the oldest accounts only.
PLANNER_OPTIONS = "-c enable_seqscan=off -c enable_mergejoin=off -c enable_hashjoin=off"


@cache
def get_connect_threads() -> ThreadPoolExecutor:
    """Return threads reserved for connecting, because blocking calls may occupy all others."""
    return ThreadPoolExecutor(CONNECT_THREADS, thread_name_prefix="connecting")


def get_connect_timeout(alias: str) -> float:
    """Return the timeout for opening a connection, in seconds. DATABASE_CONNECT_TIMEOUT is per host."""
    options = settings.DATABASES[alias]
    seconds = float(options["OPTIONS"].get("connect_timeout", 2))
    hosts = str(options["HOST"]).count(",") + 1
    return seconds * hosts + SETUP_SECONDS


async def connect_in_thread(alias: str) -> BaseDatabaseWrapper:
    """Open a connection that is not part of Django's `connections`. Raises ConnectionFailedError."""
    call = get_connect_threads().submit(connect, alias)
    try:
        return await with_timeout(get_connect_timeout(alias), asyncio.wrap_future(call))
    except BaseException as error:
        call.add_done_callback(close_unclaimed)  # The thread can't be cancelled.
        if not isinstance(error, Exception):
            raise
        raise ConnectionFailedError(f"{type(error).__name__}: {error}") from error


async def with_timeout(seconds: float, awaitable: Awaitable[Result]) -> Result:
    """Await, or cancel the awaitable and raise TimeoutError.

    The timeout excludes time for which the process was suspended.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        for _ in range(timeout_in_ticks(seconds)):
            await asyncio.wait([task], timeout=TICK)
            if task.done():
                return task.result()
    finally:
        task.cancel()
    raise TimeoutError(f"The operation took longer than {seconds} seconds.")


def connect(alias: str) -> BaseDatabaseWrapper:
    wrapper = connections.create_connection(alias)
    options = wrapper.settings_dict["OPTIONS"]
    if options.get("prepare_threshold") is not None:  # None stands for a pooler, which accepts no options.
        options = options | {"options": f"{options.get('options', '')} {PLANNER_OPTIONS}".strip()}
        wrapper.settings_dict = wrapper.settings_dict | {"OPTIONS": options}
    try:
        wrapper.connect()
    except BaseException:
        if wrapper.connection is not None:  # Django's statements on the new connection failed.
            wrapper.connection.close()
        raise
    return wrapper


def close_unclaimed(call: "Future[BaseDatabaseWrapper]") -> None:
    """Close a connection that opened after its caller had given up."""
    if not call.cancelled() and call.exception() is None:
        with suppress(psycopg.Error):
            call.result().connection.close()
