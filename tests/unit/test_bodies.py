"""Limits of request bodies: the memory budget and the number of parts."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from petstore.api.errors import ApiError, ErrorCode
from petstore.server.bodies import SMALL_BODY, Exchange, collect, discard
from petstore.server.body_limits import MemoryBudget, body_timeouts


async def hold_memory(budget: MemoryBudget, event: asyncio.Event, size: int) -> str:
    """Hold memory for a body until the event is set, and return the outcome."""
    try:
        async with body_timeouts.start() as deadline:
            try:
                await budget.acquire(deadline, size)
                await event.wait()
            finally:
                budget.release(deadline)
    except TimeoutError:
        return "expired"
    return "complete"


def test_fast_bodies_queue_for_the_budget_without_expiring() -> None:
    async def main() -> list[str]:
        budget, event = MemoryBudget(100, seconds=60), asyncio.Event()
        tasks = [asyncio.create_task(hold_memory(budget, event, 60)) for _ in range(4)]
        await asyncio.sleep(0)
        event.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == ["complete"] * 4


def test_oldest_body_expires_when_others_wait() -> None:
    async def main() -> list[str]:
        budget, event, ready = MemoryBudget(100, seconds=0.01), asyncio.Event(), asyncio.Event()
        ready.set()
        older = [asyncio.create_task(hold_memory(budget, event, 40)) for _ in range(2)]
        await asyncio.sleep(0)
        outcomes = [await hold_memory(budget, ready, 60), await older[0]]
        event.set()
        return [*outcomes, await older[1]]

    assert asyncio.run(main()) == ["complete", "expired", "complete"]


def test_complete_body_does_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> list[str]:
        budget, event, ready = MemoryBudget(100, seconds=0.01), asyncio.Event(), asyncio.Event()
        ready.set()
        expire = budget._expire_oldest

        def complete_and_expire() -> None:
            event.set()
            expire()

        monkeypatch.setattr(budget, "_expire_oldest", complete_and_expire)
        older = asyncio.create_task(hold_memory(budget, event, 60))
        await asyncio.sleep(0)
        return [await hold_memory(budget, ready, 60), await older]

    assert asyncio.run(main()) == ["complete", "complete"]


def test_cancelled_bodies_release_their_budget() -> None:
    async def main() -> str:
        budget, never, ready = MemoryBudget(100, seconds=60), asyncio.Event(), asyncio.Event()
        ready.set()
        tasks = [asyncio.create_task(hold_memory(budget, never, 60)) for _ in range(4)]
        await asyncio.sleep(0)
        for task in tasks[::-1]:  # Waiting bodies first.
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return await hold_memory(budget, ready, 100)

    assert asyncio.run(main()) == "complete"


def make_parts(*parts: bytes) -> Exchange:
    async def protocol() -> AsyncIterator[bytes]:
        for part in [*parts, b""]:
            yield part

    return Exchange(protocol())


@pytest.mark.parametrize(
    ("parts", "limit"),
    [([b"x"] * 1_000, 65_536), ([b"x" * 1_400] * 5_900, 8 * 1024 * 1024)],
    ids=["a thousand", "8 MiB in packets"],
)
def test_body_within_the_part_limit_is_accepted(parts: list[bytes], limit: int) -> None:
    assert asyncio.run(collect(make_parts(*parts), limit)) == b"".join(parts)


def test_reading_stops_at_the_declared_length_or_the_error_marker() -> None:
    async def protocol(*parts: bytes) -> AsyncIterator[bytes]:
        for part in parts:
            yield part
        raise AssertionError

    assert asyncio.run(collect(Exchange(protocol(b"ab", b"c")), 100, 3)) == b"abc"
    with pytest.raises(ApiError) as raised:
        asyncio.run(collect(Exchange(protocol(b"a", b"", b"")), 100))
    assert raised.value.status_code == 400


@pytest.mark.parametrize("limit", [SMALL_BODY, 65_536, 8 * 1024 * 1024], ids=["small", "API", "staff"])
def test_body_in_tiny_parts_gets_413(limit: int) -> None:
    with pytest.raises(ApiError) as raised:
        asyncio.run(collect(make_parts(*[b"x"] * 1_001), limit))
    assert raised.value.status_code == 413
    assert "parts" in raised.value.message


def test_discarding_tiny_parts_is_bounded() -> None:
    async def count_remaining() -> int:
        parts = make_parts(*[b"x"] * 10_000)
        await discard(parts, ApiError(ErrorCode.PAYLOAD_TOO_LARGE))
        return [part async for part in parts].count(b"x")

    assert asyncio.run(count_remaining()) > 7_000
