"""Runs functions as requests on an event loop of their own."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop
from django.db import connection

from petstore.db.event_loop.connection import PostgresqlConnection
from petstore.db.event_loop.django_connections import install
from petstore.db.event_loop.greenlets import RequestTask
from tests.support.concurrency import in_other_thread

Function = Callable[[], Any]
Result = TypeVar("Result")


async def run_request(function: Function) -> Any:
    """Run a function as a request on the current loop."""
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            done.set_result(function())
        except Exception as error:  # noqa: BLE001  The test handles it.
            done.set_exception(error)

    RequestTask(run).start()
    return await done


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on a new uvloop, and close the connections that were opened there."""
    install()

    async def run_and_close() -> Result:
        try:
            return await main
        finally:
            other_tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in other_tasks:  # They may be opening connections.
                task.cancel()
            await asyncio.gather(*other_tasks, return_exceptions=True)
            found = [obj for obj in gc.get_objects() if issubclass(type(obj), PostgresqlConnection)]
            for connection in found:
                connection.close()
            await asyncio.sleep(0)  # Lets transports close.

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run_and_close())


def serve(*functions: Function) -> list[Any]:
    """Run functions as concurrent requests, and return their results and exceptions."""

    async def main() -> list[Any]:
        return await asyncio.gather(
            *(run_request(function) for function in functions), return_exceptions=True
        )

    return run(main())


def run_directly(function: Function) -> Any:
    """Run a function off the loop, and return its result or exception."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001  `serve` returns exceptions as well.
        return error


def run_on_loop(function: Function) -> Any:
    """Run a function as a request on a loop, and return its result or exception."""
    (outcome,) = serve(function)
    return outcome


def terminate_backend(pid: int) -> None:
    """Terminate a connection to the database from another thread, and wait for its end."""

    def terminate() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    in_other_thread(terminate)
