"""What bodies may take up while they come, and in how many parts they may come."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from petstore.api.errors import ApiError, ErrorCode
from petstore.server.bodies import SMALL_BODY, Exchange, Parts, collect, discard
from petstore.server.body_limits import MemoryBudget, body_timeouts


async def held(budget: MemoryBudget, go_on: asyncio.Event, size: int) -> str:
    """Hold budget for a body that is coming until told; return what became of it."""
    try:
        async with body_timeouts.start() as deadline:
            try:
                await budget.acquire(deadline, size)
                await go_on.wait()
            finally:
                budget.release(deadline)
    except TimeoutError:
        return "given up"
    return "whole"


def test_bodies_beyond_the_room_wait_and_none_is_given_up_that_is_quick() -> None:
    async def four() -> list[str]:
        budget, go_on = MemoryBudget(100, seconds=60), asyncio.Event()
        tasks = [asyncio.create_task(held(budget, go_on, 60)) for _ in range(4)]
        await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(four()) == ["whole"] * 4


def test_oldest_body_is_given_up_once_it_had_its_time_and_another_waits() -> None:
    async def three() -> list[str]:
        budget, go_on, at_once = MemoryBudget(100, seconds=0.01), asyncio.Event(), asyncio.Event()
        at_once.set()
        older = [asyncio.create_task(held(budget, go_on, 40)) for _ in range(2)]
        await asyncio.sleep(0)
        found = [await held(budget, at_once, 60), await older[0]]
        go_on.set()
        return [*found, await older[1]]

    assert asyncio.run(three()) == ["whole", "given up", "whole"]


def test_body_that_is_whole_when_its_time_ends_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def two() -> list[str]:
        budget, go_on, at_once = MemoryBudget(100, seconds=0.01), asyncio.Event(), asyncio.Event()
        at_once.set()
        expire = budget._expire_oldest

        def at_the_last_moment() -> None:
            go_on.set()
            expire()

        monkeypatch.setattr(budget, "_expire_oldest", at_the_last_moment)
        older = asyncio.create_task(held(budget, go_on, 60))
        await asyncio.sleep(0)
        return [await held(budget, at_once, 60), await older]

    assert asyncio.run(two()) == ["whole", "whole"]


def test_body_that_ends_while_it_waits_or_holds_leaves_all_its_room() -> None:
    async def many() -> str:
        budget, never, at_once = MemoryBudget(100, seconds=60), asyncio.Event(), asyncio.Event()
        at_once.set()
        tasks = [asyncio.create_task(held(budget, never, 60)) for _ in range(4)]
        await asyncio.sleep(0)
        for task in tasks[::-1]:  # Those who wait, first.
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return await held(budget, at_once, 100)

    assert asyncio.run(many()) == "whole"


def arriving(*parts: bytes) -> Parts:
    """Return the parts of a body as granian would let them come."""

    async def protocol() -> AsyncIterator[bytes]:
        for part in [*parts, b""]:
            yield part

    return Parts(Exchange(protocol()))


@pytest.mark.parametrize(
    ("parts", "most"),
    [([b"x"] * 1_000, 65_536), ([b"x" * 1_400] * 5_900, 8 * 1024 * 1024)],
    ids=["a thousand", "8 MiB in packets"],
)
def test_body_in_few_enough_parts_is_taken(parts: list[bytes], most: int) -> None:
    assert asyncio.run(collect(arriving(*parts), most)) == b"".join(parts)


def test_no_more_is_waited_for_once_a_body_is_as_long_as_declared() -> None:
    async def protocol() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"c"
        raise AssertionError

    assert asyncio.run(collect(Parts(Exchange(protocol())), 100, 3)) == b"abc"


@pytest.mark.parametrize("most", [SMALL_BODY, 65_536, 8 * 1024 * 1024], ids=["small", "API", "staff"])
def test_body_in_tiny_parts_is_a_413_however_long_it_might_have_been(most: int) -> None:
    with pytest.raises(ApiError) as refused:
        asyncio.run(collect(arriving(*[b"x"] * 1_001), most))
    assert refused.value.status_code == 413
    assert "parts" in refused.value.message


def test_nothing_is_waited_for_after_the_sign_of_an_error() -> None:
    async def protocol() -> AsyncIterator[bytes]:
        yield b"a"
        yield b""
        yield b""
        raise AssertionError

    with pytest.raises(ApiError) as refused:
        asyncio.run(collect(Parts(Exchange(protocol())), 100))
    assert refused.value.status_code == 400


def test_tiny_parts_are_not_discarded_for_long() -> None:
    async def left() -> int:
        parts = arriving(*[b"x"] * 10_000)
        await discard(parts, ApiError(ErrorCode.PAYLOAD_TOO_LARGE))
        return [part async for part in parts].count(b"x")

    assert asyncio.run(left()) > 7_000
