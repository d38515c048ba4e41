"""What blocks runs in a thread, so that it doesn't hold up the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import OperationalError, connections
from django.db.transaction import TransactionManagementError

from petstore.event_loop.greenlets import QUEUED_TOO_LONG, Alarm, on_loop, this_turn, wait

P = ParamSpec("P")
Result = TypeVar("Result")


@cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.THREADS, thread_name_prefix="blocking")


def in_thread(function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Call what blocks: from the loop in a thread of its own, from anywhere else at once.

    Raises OperationalError if no thread was free for QUEUE_TIMEOUT milliseconds, and
    TransactionManagementError under `atomic`: a thread's queries would be no part of the transaction.
    """
    if not on_loop():
        return function(*args, **kwargs)
    if this_turn().transaction is not None:
        raise TransactionManagementError(
            "Under `atomic` nothing goes to a thread: see petstore.event_loop."
        )
    call = pool().submit(lambda: call_and_tidy(lambda: function(*args, **kwargs)))
    # What a thread has begun can't be cancelled, and goes on.
    in_time = Alarm(settings.QUEUE_TIMEOUT / 1000, call.cancel)
    try:
        return wait(asyncio.wrap_future(call))
    except asyncio.CancelledError:
        raise OperationalError(QUEUED_TOO_LONG) from None
    finally:
        in_time.cancel()


def call_and_tidy(function: Callable[[], Result]) -> Result:
    """Call, and drop connections that broke: what Django does at the end of a request."""
    try:
        return function()
    finally:
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()
