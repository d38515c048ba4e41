"""Calls from the event loop to threads, which may block."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import OperationalError, close_old_connections
from django.db.transaction import TransactionManagementError

from petstore.event_loop.greenlets import (
    QUEUED_TOO_LONG,
    LoopTimer,
    current_task,
    is_on_loop,
    wait,
)

P = ParamSpec("P")
Result = TypeVar("Result")


@cache
def get_thread_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.THREADS, thread_name_prefix="blocking")


def run_in_thread(function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Run a blocking function in a thread when called on the loop, and directly otherwise.

    Raises OperationalError if no thread becomes free within QUEUE_TIMEOUT milliseconds, and
    TransactionManagementError under `atomic`, because the thread's queries would not join the transaction.
    """
    if not is_on_loop():
        return function(*args, **kwargs)
    if current_task().transaction is not None:
        raise TransactionManagementError("Threads can't be used under `atomic`. See petstore.event_loop.")
    call = get_thread_pool().submit(call_between_checks, partial(function, *args, **kwargs))
    # `cancel` has no effect once the call has started.
    timer = LoopTimer(settings.QUEUE_TIMEOUT / 1000, call.cancel)
    try:
        return wait(asyncio.wrap_future(call))
    except asyncio.CancelledError:
        raise OperationalError(QUEUED_TOO_LONG) from None
    finally:
        timer.cancel()


def call_between_checks(function: Callable[[], Result]) -> Result:
    """Close unusable connections before and after the call, as Django does around a request."""
    close_old_connections()
    try:
        return function()
    finally:
        close_old_connections()
