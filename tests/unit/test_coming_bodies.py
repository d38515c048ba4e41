"""Small bodies that come while their requests are served already."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from unittest.mock import Mock

import pytest
from django.http import HttpRequest

from petstore.api.errors import ApiError, ErrorCode, answer_to
from petstore.api.passage import Passage
from petstore.api.responses import Response
from petstore.observability import requests
from petstore.serving import requests as loop_requests
from petstore.serving.bodies import MOST_AHEAD, SMALL, ComingBody, Exchange, Parts
from petstore.serving.bounds import patience
from petstore.serving.on_loop import Answer, answer_on_loop, serve_ahead
from petstore.serving.requests import LoopRequest
from tests.unit.test_serving import scope_of


class Client:
    """Stands for granian's protocol: each part that is asked for is like a future."""

    def __init__(self) -> None:
        self._asked: asyncio.Queue[asyncio.Future[bytes]] = asyncio.Queue()
        self._empty = 0
        self.answer: tuple[int, bytes] | None = None

    def __aiter__(self) -> "Client":
        return self

    def __anext__(self) -> asyncio.Future[bytes]:
        if self._empty == 2:  # One for the Error, which granian doesn't raise, and one for the end.
            raise StopAsyncIteration
        part: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait(part)
        return part

    async def send(self, *parts: bytes) -> None:
        """Send each when it is asked for, and let the service do what it can with it."""
        for part in parts:
            asked = await self.asked()
            await seen()
            self._empty += not part
            asked.set_result(part)
        await seen()

    async def asked(self) -> asyncio.Future[bytes]:
        """Return what the service waits for, once it does."""
        async with asyncio.timeout(10):
            return await self._asked.get()

    def response_bytes(self, status: int, _headers: object, body: bytes) -> None:
        self.answer = status, body


async def seen() -> None:
    """Let the loop turn often enough for whatever can go on."""
    for _ in range(20):
        await asyncio.sleep(0)


def echo(request: LoopRequest) -> Response:
    """Answer with the body, read in each way, or with the Error that reading it raises."""
    Passage.begin(request)
    try:
        assert (request.body, b"") == (request.read(), request.read())
    except ApiError as error:
        return answer_to(error)
    return Response.of_bytes(request.body, 200, {})


def refuse(request: LoopRequest) -> Response:
    return answer_to(ApiError(ErrorCode.MISSING_API_KEY))


def fail(request: LoopRequest) -> Response:
    raise ValueError


def body_of(client: Client) -> ComingBody:
    """Return the client's body, of three bytes."""
    return ComingBody(Parts(Exchange(client)), 3)


async def serve(client: Client, answer: Answer) -> None:
    body = body_of(client)
    await serve_ahead(Exchange(client), body, answer_on_loop(scope_of(), body, answer))


def answered(answer: Answer, *sent: bytes) -> tuple[int, bytes] | None:
    """Return the answer to a client whose body comes in these parts."""

    async def both() -> tuple[int, bytes] | None:
        client = Client()
        await asyncio.gather(serve(client, answer), client.send(*sent))
        return client.answer

    found = asyncio.run(both())
    assert ComingBody.ahead == 0
    return found


@pytest.mark.parametrize("parts", [(b"abc",), (b"a", b"bc"), (b"a", b"b", b"c")])
def test_body_is_read_whole_in_however_many_parts_it_comes(parts: tuple[bytes, ...]) -> None:
    assert answered(echo, *parts) == (200, b"abc")


@pytest.mark.parametrize("parts", [(b"", b""), (b"a", b"", b"")])
def test_body_that_is_cut_is_a_400(parts: tuple[bytes, ...]) -> None:
    found = answered(echo, *parts)
    assert found is not None
    assert (found[0], b'"malformed_json"' in found[1]) == (400, True)


def test_body_that_is_here_before_it_is_read_is_waited_for_by_nobody() -> None:
    async def read() -> bytes:
        client = Client()
        body = body_of(client)
        with body:
            await client.send(b"abc")
            return body.read()  # Outside of a request, where waiting would fail.

    assert asyncio.run(read()) == b"abc"


def test_first_part_of_a_body_is_not_all_of_it() -> None:
    async def read() -> bytes:
        client = Client()
        body = body_of(client)
        with body:
            await client.send(b"a")
            assert not body.is_here()
            await asyncio.gather(body.settle(), client.send(b"bc"))
            return body.read()

    assert asyncio.run(read()) == b"abc"


def test_refusal_waits_for_the_body_that_it_does_not_need() -> None:
    async def refused() -> list[tuple[int, bytes] | None]:
        client = Client()
        request = asyncio.create_task(serve(client, refuse))
        await client.send(b"a")
        before = client.answer
        assert ComingBody.ahead == 0  # Who has no key keeps nobody from being ahead.
        await client.send(b"bc")
        await request
        return [before, client.answer]

    before, after = asyncio.run(refused())
    assert before is None
    assert after is not None
    assert after[0] == 401


@pytest.mark.parametrize("answer", [echo, refuse])
def test_client_that_sends_nothing_is_answered_in_the_end(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "until", lambda _: asyncio.get_running_loop().time())
    found = answered(answer)
    assert found is not None
    assert found[0] == (408 if answer is echo else 401)


def test_request_that_fails_is_answered_when_its_body_has_come() -> None:
    assert answered(fail, b"abc") == (500, b"")


def test_nothing_more_is_asked_for_once_serving_has_failed() -> None:
    async def failed() -> bool:
        client = Client()
        with pytest.raises(ValueError, match="no answer"):
            await serve_ahead(Exchange(client), body_of(client), no_answer())
        return (await client.asked()).cancelled()

    assert asyncio.run(failed())
    assert ComingBody.ahead == 0


async def no_answer() -> Response:
    raise ValueError("no answer")


def test_only_so_many_requests_are_ahead_of_their_bodies() -> None:
    async def many() -> list[bool]:
        with ExitStack() as stack:
            for _ in range(MOST_AHEAD):
                assert ComingBody.may_come(3)
                stack.enter_context(body_of(Client()))
            full = ComingBody.may_come(3)
        return [full, ComingBody.may_come(3)]

    assert asyncio.run(many()) == [False, True]


@pytest.mark.parametrize("length", [None, 0, SMALL + 1])
def test_no_body_is_served_while_it_comes_that_is_large_or_none(length: int | None) -> None:
    assert not ComingBody.may_come(length)


def test_time_that_a_client_takes_is_not_the_services(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, seconds = Mock(return_value=100.0), Mock()
    monkeypatch.setattr(loop_requests, "perf_counter", clock)
    monkeypatch.setattr(requests, "perf_counter", clock)
    monkeypatch.setattr(requests, "behind", seconds)
    measured = requests.Measured(echo_slowly(clock))

    async def slow() -> None:
        client = Client()
        request = asyncio.create_task(
            serve(client, lambda request: measured(request, Passage.begin(request)))
        )
        await seen()
        clock.return_value += 20
        await client.send(b"abc")
        await request

    asyncio.run(slow())
    assert [call.args[1] for call in seconds.add.mock_calls] == [0.5]


def echo_slowly(clock: Mock) -> Callable[[HttpRequest], Response]:
    """Return an answer that takes half a second when the body is here."""

    def answer(request: HttpRequest) -> Response:
        body = request.body
        clock.return_value += 0.5
        return Response.of_bytes(body, 200, {})

    return answer
