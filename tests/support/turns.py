"""Functions run as requests on an event loop of their own."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop
from django.db import connection

from petstore.event_loop.connection import Connection
from petstore.event_loop.greenlets import RequestTask
from tests.support.meanwhile import aside

Function = Callable[[], Any]
Result = TypeVar("Result")


async def turn(function: Function) -> Any:
    """Run a function as a request on the loop; its result or exception."""
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            done.set_result(function())
        except Exception as error:  # noqa: BLE001  The test gets any exception.
            done.set_exception(error)

    RequestTask(run).start()
    return await done


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run on an event loop like the server's, and close the connections that were opened there."""

    async def all_of_it() -> Result:
        try:
            return await main
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:  # Tasks that still open connections.
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            for opened in [thing for thing in gc.get_objects() if issubclass(type(thing), Connection)]:
                opened.close()
            await asyncio.sleep(0)  # Lets transports close.

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(all_of_it())


def serve(*functions: Function) -> list[Any]:
    """Run functions as concurrent requests; exceptions are among the results."""

    async def main() -> list[Any]:
        return await asyncio.gather(*(turn(function) for function in functions), return_exceptions=True)

    return run(main())


def in_place(function: Function) -> Any:
    """Run a function directly; its result or its exception."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001  As `serve` returns it.
        return error


def on_the_loop(function: Function) -> Any:
    """Run one function as a request on the loop; its result or its exception."""
    (outcome,) = serve(function)
    return outcome


def end_connection(process: int) -> None:
    """Terminate a connection to the database from a thread: the loop must not query it itself."""

    def end() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [process])

    aside(end)
