"""A worker with clients that are stubs of granian's protocol.

Forms, which may cost a password hash each, are served one at a time, anonymous ones and those of signed-in
users separately, and few wait for each client. A finished request must not keep the server's protocol
alive: granian closes the connection of a client that never sent all of its body only once its protocol is
released.
"""

import asyncio
import multiprocessing
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse

from petstore.api.errors import ApiError
from petstore.api.request_headers import BODY_ERROR

CLIENT_SECONDS = 0.05
FORMS = 12  # More than a worker has threads.
MAX_FORMS = 4  # Of a client.


@pytest.fixture(scope="module")
def process() -> Iterator[ProcessPoolExecutor]:
    """A process that can act as a worker."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        yield process


class Protocol:
    """A stub of granian's protocol, with a client whose body is empty or never arrives."""

    def __init__(self, seen: list[int | str], *, is_silent: bool) -> None:
        self._seen = seen
        self._is_silent = is_silent

    def __aiter__(self) -> "Protocol":
        return self

    def __anext__(self) -> asyncio.Future[bytes]:
        part: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._is_silent:
            self._seen.append("asked for a part")
        else:
            part.set_exception(StopAsyncIteration())
        return part

    def response_bytes(self, status: int, _headers: Any, _body: Any) -> None:
        self._seen.append(status)

    response_str = response_bytes


def scope(method: str, path: str, address: str = "192.0.2.1", **headers: str) -> SimpleNamespace:
    return SimpleNamespace(
        method=method, path=path, query_string="", headers={"host": "a"} | headers, authority=None,
        scheme="http", http_version="1.1", client=f"{address}:50000", server="127.0.0.1:8000",
    )  # fmt: skip


# --- Forms ---------------------------------------------------------------------------------------


class SlowFormHandler:
    """A stub of Django: forms take until they are released, pages no time. Other paths are missing."""

    def __init__(self) -> None:
        self.started, self.let_go = threading.Event(), threading.Event()
        self.at_once = self.most_at_once = 0

    def get_response(self, request: HttpRequest) -> HttpResponse:
        status = 503 if BODY_ERROR in request.META else 200
        if request.path != "/account/login/":
            return HttpResponse(status=404)
        if request.method == "POST" and status == 200:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.started.set()
            assert self.let_go.wait(30)
            self.at_once -= 1
        return HttpResponse(status=status)


def serve_forms(
    queue_seconds: int, rejected_forms: int, addresses: list[str], signed_in: int = 0
) -> tuple[int, dict[int | str, int]]:
    """Serve a form of each address, a page and posts to missing pages concurrently, in a separate process.

    The first address also has forms whose bodies never arrive. The last ones are of signed-in users.

    Returns how many forms were in threads at the same time, and the count of each status.
    """
    from petstore.server import app, serving  # They start all that a worker has.

    app.FORM_QUEUE_SECONDS = queue_seconds  # type: ignore[attr-defined]
    app.find_session_user = lambda _: get_user_model()(is_staff=True)  # type: ignore[assignment, attr-defined]
    handler = serving.wsgi = SlowFormHandler()  # type: ignore[assignment, attr-defined]

    async def main() -> Counter[int | str]:
        application = app.Application()

        async def send(method: str, address: str, path: str = "/account/login/") -> int | str:
            seen: list[int | str] = []
            cookie = "sessionid=x" if address in addresses[len(addresses) - signed_in :] else "csrftoken=x"
            headers = {"content-length": "0", "cookie": cookie}
            asked = scope(method, path, address, **headers)
            await application.__rsgi__(asked, Protocol(seen, is_silent=False))
            await asyncio.sleep(0)  # A thread had the loop send the response.
            return seen[-1]

        async with asyncio.timeout(20):
            arriving = scope("POST", "/account/login/", addresses[0], **{"content-length": "9"})
            unsent = [
                asyncio.create_task(application.__rsgi__(arriving, Protocol([], is_silent=True)))
                for _ in range(MAX_FORMS)
            ]
            forms = [asyncio.create_task(send("POST", address)) for address in addresses]
            await asyncio.to_thread(handler.started.wait)
            assert await send("GET", addresses[0]) == 200
            missing = {await send("POST", "198.51.100.1", f"/{number}/a/b/") for number in range(FORMS)}
            assert missing == {404}
            finished = asyncio.as_completed(forms)
            for _ in range(rejected_forms):
                await next(finished)
            handler.let_go.set()
            for task in unsent:
                task.cancel()
            return Counter(await asyncio.gather(*forms))

    statuses = asyncio.run(main())
    return handler.most_at_once, dict(statuses)


@pytest.mark.parametrize(
    ("queue_seconds", "rejected_forms", "statuses"),
    [(20, 0, {200: FORMS}), (0, FORMS - 1, {200: 1, 503: FORMS - 1})],
)
def test_anonymous_forms_are_served_one_at_a_time_and_delay_no_page_and_no_other_post(
    process: ProcessPoolExecutor, queue_seconds: int, rejected_forms: int, statuses: dict[int, int]
) -> None:
    addresses = [f"192.0.2.{number}" for number in range(FORMS)]
    assert process.submit(serve_forms, queue_seconds, rejected_forms, addresses).result() == (1, statuses)


def test_signed_in_users_have_a_queue_of_their_own(process: ProcessPoolExecutor) -> None:
    addresses = [f"192.0.2.{number}" for number in range(FORMS)]
    _, statuses = process.submit(serve_forms, 0, FORMS - 2, addresses, FORMS // 2).result()
    assert statuses == {200: 2, 503: FORMS - 2}


def test_one_client_can_not_fill_the_queue_of_forms(process: ProcessPoolExecutor) -> None:
    excess = 20
    addresses = ["192.0.2.1"] * (MAX_FORMS + excess) + ["192.0.2.2"]
    statuses = {200: MAX_FORMS + 1, 429: excess}
    assert process.submit(serve_forms, 20, excess, addresses).result() == (1, statuses)


def count_session_lookups(limit: int, posts: int) -> int:
    """Send posts with a session cookie from one address, in a separate process."""
    from petstore.server import app, serving
    from petstore.sign_in.rate_limits import RateLimitMiddleware

    settings.PAGES_PER_MINUTE = limit
    serving.wsgi = SimpleNamespace(get_response=RateLimitMiddleware(lambda _: HttpResponse()))  # type: ignore[assignment, attr-defined]
    lookups: list[str] = []
    app.find_session_user = lookups.append  # type: ignore[assignment, attr-defined]
    address = f"[2001:db8:{os.urandom(2).hex()}:{os.urandom(2).hex()}::1]"
    headers = {"content-length": "0", "cookie": "sessionid=x"}

    async def main() -> None:
        application = app.Application()
        for _ in range(posts):
            asked = scope("POST", "/account/login/", address, **headers)
            await application.__rsgi__(asked, Protocol([], is_silent=False))

    asyncio.run(main())
    return len(lookups)


def test_flood_of_posts_with_a_session_cookie_does_not_reach_the_database(
    process: ProcessPoolExecutor,
) -> None:
    assert process.submit(count_session_lookups, 3, 20).result() == 4


# --- Finished requests ---------------------------------------------------------------------------


class ErrorRecorder:
    """A stub of the service that stores each error, and with it the frames of the request."""

    def __init__(self) -> None:
        self._kept: list[Exception] = []

    def authenticate(self, request: Any) -> None:
        """Reject on the loop, where the view calls this first."""
        self._read(request._request.read)

    def get_response(self, request: HttpRequest) -> HttpResponse:
        """Respond in a thread."""
        try:
            self._read(request.read)
        except ApiError as error:
            return HttpResponse("No.", status=error.status_code)
        raise AssertionError

    def _read(self, read: Callable[[], bytes]) -> None:
        try:
            read()
        except ApiError as error:
            self._kept.append(error)
            raise


def serve_silent_client(mode: str, path: str, length: int) -> tuple[list[int | str], bool]:
    """Serve a silent client's POST. Run it in a separate process.

    Returns what the client saw, in order, and whether the server's protocol outlived the request.
    """
    from petstore.server import app, serving  # They start all that a worker has.

    from accounts.keys.authentication import BearerKeyAuthentication  # isort: skip

    settings.SERVE_MODE = mode
    settings.CLIENT_SECONDS = CLIENT_SECONDS
    handler = ErrorRecorder()
    serving.wsgi = handler  # type: ignore[assignment, attr-defined]
    BearerKeyAuthentication.authenticate = handler.authenticate  # type: ignore[assignment, method-assign]
    seen: list[int | str] = []
    client = Protocol(seen, is_silent=True)
    side = weakref.ref(client)
    asked = scope("POST", path, **{"content-length": str(length)})
    request = app.Application().__rsgi__(asked, client)
    del client
    asyncio.run(request)
    return seen, side() is not None


@pytest.mark.parametrize("mode", ["loop", "threads"])
@pytest.mark.parametrize(
    ("path", "length", "seen"),
    [
        ("/v1/pets", 10, ["asked for a part", 408]),
        ("/v1/pets", 60_000, [401, "asked for a part"]),  # Its body is discarded.
        ("/account/login/", 10, ["asked for a part", 408]),
    ],
)
def test_finished_request_releases_the_protocol(
    process: ProcessPoolExecutor, mode: str, path: str, length: int, seen: list[int | str]
) -> None:
    assert process.submit(serve_silent_client, mode, path, length).result() == (seen, False)
