"""How requests are made from what the server tells, and their answers sent."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest

from petstore.api.responses import Response
from petstore.loop.waiting import wait
from petstore.serving import bodies
from petstore.serving.bodies import Exchange
from petstore.serving.on_loop import Answer, serve_on_loop
from petstore.serving.requests import UNREADABLE, LoopRequest, meta_of


class Headers:
    """As granian has them: a header whose value is not ASCII is in the names, and in no item."""

    def __init__(self, *items: tuple[str, str], unreadable: tuple[str, ...] = ()) -> None:
        self._items = list(items)
        self._names = [*dict(items), *unreadable]

    def items(self) -> list[tuple[str, str]]:
        return self._items

    def keys(self) -> list[str]:
        return self._names


def scope_of(headers: Headers | None = None) -> Any:
    return SimpleNamespace(
        method="GET", path="/v1/pets", query_string="", client="127.0.0.1:1", server="127.0.0.1:2",
        scheme="http", http_version="1.1", authority=None, headers=headers or Headers(),
    )  # fmt: skip


async def serve(protocol: Any, answer: Answer) -> None:
    await serve_on_loop(scope_of(), Exchange(protocol), bodies.NOTHING, answer)


def test_answers_of_one_turn_of_the_loop_leave_after_all_are_made() -> None:
    seen = Mock()

    def answer(request: LoopRequest) -> Response:
        wait(asyncio.sleep(0))
        seen.made()
        return Response(status=204)

    async def main() -> None:
        await asyncio.gather(serve(seen, answer), serve(seen, answer))

    asyncio.run(main())
    sent = call.response_empty(204, [])
    assert seen.mock_calls == [call.made(), call.made(), sent, sent]


def fail(request: LoopRequest) -> Response:
    raise ValueError


def unsendable(request: LoopRequest) -> Response:
    return Response(headers={"Location": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("answer", [fail, unsendable])
def test_request_that_fails_is_answered_all_the_same(answer: Answer) -> None:
    protocol = Mock()
    protocol.response_empty.side_effect = TypeError
    asyncio.run(serve(protocol, answer))
    assert protocol.mock_calls[-1] == call.response_bytes(500, [], b"")


def test_header_that_can_not_be_read_is_not_taken_for_missing() -> None:
    meta = meta_of(scope_of(Headers(("x-a", "1"), ("x-a", "2"), unreadable=("authorization",))))
    assert (meta["HTTP_X_A"], meta["HTTP_AUTHORIZATION"]) == ("1,2", UNREADABLE)


@pytest.mark.parametrize("unreadable", [(), ("x-b", "x_c")])
def test_header_with_an_underscore_stands_for_no_other(unreadable: tuple[str, ...]) -> None:
    meta = meta_of(scope_of(Headers(("x_a", "1"), ("x-a", "2"), unreadable=unreadable)))
    assert meta["HTTP_X_A"] == "2"
    assert "" not in meta
    assert "HTTP_X_C" not in meta
