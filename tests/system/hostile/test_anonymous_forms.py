"""Forms of anonymous clients, which may cost a password hash each, are served one at a time."""

import asyncio
import threading
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse

from petstore.api.head import BODY_ERROR

FORMS = 12  # More than a worker has threads.


class Handler:
    """Stands for Django: forms take until they are let go, pages no time."""

    def __init__(self) -> None:
        self.started, self.let_go = threading.Event(), threading.Event()
        self.at_once = self.most_at_once = 0

    def get_response(self, request: HttpRequest) -> HttpResponse:
        status = 503 if BODY_ERROR in request.META else 200
        if request.method == "POST" and status == 200:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.started.set()
            assert self.let_go.wait(30)
            self.at_once -= 1
        return HttpResponse(status=status)


class Protocol:
    """Stands for granian's."""

    def __init__(self) -> None:
        self.status = 0

    def __aiter__(self) -> "Protocol":
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    def response_bytes(self, status: int, headers: Any, content: bytes) -> None:
        self.status = status


def serve_forms(queue_seconds: int, done_meanwhile: int) -> tuple[int, dict[int, int]]:
    """Serve many forms at once, and a page meanwhile. Only for a process of its own.

    Return how many forms were in threads at the same time, and how often each status was the response.
    """
    from petstore.serving import rsgi  # It starts all that a worker has.

    rsgi.QUEUE_SECONDS = queue_seconds  # type: ignore[attr-defined]
    handler = rsgi.wsgi = Handler()  # type: ignore[assignment, attr-defined]

    async def main() -> Counter[int]:
        application = rsgi.Application()

        async def send(method: str) -> int:
            scope = SimpleNamespace(
                method=method, path="/admin/login/", query_string="", authority=None, scheme="http",
                headers={"content-length": "0", "cookie": "csrftoken=x"}, http_version="1.1",
                client="192.0.2.1:1", server="127.0.0.1:8000",
            )  # fmt: skip
            protocol = Protocol()
            await application.__rsgi__(scope, protocol)
            await asyncio.sleep(0)  # A thread had the loop send the response.
            return protocol.status

        async with asyncio.timeout(20):
            forms = [asyncio.create_task(send("POST")) for _ in range(FORMS)]
            await asyncio.to_thread(handler.started.wait)
            assert await send("GET") == 200
            finished = asyncio.as_completed(forms)
            for _ in range(done_meanwhile):
                await next(finished)
            handler.let_go.set()
            return Counter(await asyncio.gather(*forms))

    statuses = asyncio.run(main())
    return handler.most_at_once, dict(statuses)


@pytest.mark.parametrize(
    ("queue_seconds", "done_meanwhile", "statuses"),
    [(20, 0, {200: FORMS}), (0, FORMS - 1, {200: 1, 503: FORMS - 1})],
)
def test_anonymous_forms_are_served_one_at_a_time_and_hold_up_no_page(
    process: ProcessPoolExecutor, queue_seconds: int, done_meanwhile: int, statuses: dict[int, int]
) -> None:
    assert process.submit(serve_forms, queue_seconds, done_meanwhile).result() == (1, statuses)
