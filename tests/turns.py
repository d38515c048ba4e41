"""Functions as requests on an event loop of their own."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from django.db import connection

from petstore.engine.pipe import Pipe
from petstore.engine.waiting import Turn

Function = Callable[[], Any]
Result = TypeVar("Result")


async def turn(function: Function) -> Any:
    """Run a function as a request on the loop; return or raise what it does."""
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            done.set_result(function())
        except Exception as error:  # noqa: BLE001  Whatever it is, it is the test's.
            done.set_exception(error)

    Turn(run).switch()
    return await done


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run on a loop, and close what was opened there."""

    async def all_of_it() -> Result:
        try:
            return await main
        finally:
            for pipe in [thing for thing in gc.get_objects() if issubclass(type(thing), Pipe)]:
                pipe.close()
            await asyncio.sleep(0)  # Lets transports close.

    return asyncio.run(all_of_it())


def serve(*functions: Function) -> list[Any]:
    """Run functions as requests that come at once; exceptions are among the results."""

    async def main() -> list[Any]:
        return await asyncio.gather(*(turn(function) for function in functions), return_exceptions=True)

    return run(main())


def end_connection(process: int) -> None:
    """End a connection to the database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [process])
    connection.close()
