"""A request that has ended holds nothing of the server's, whatever still holds the request.

granian closes the connection of a client that never sent all of its body once nobody holds its protocol.
"""

import asyncio
import weakref
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from petstore.api.errors import ApiError
from petstore.api.gate import ApiGate

CLIENT_SECONDS = 0.05


class SilentClient:
    """Stands for granian's protocol with a client whose body never comes."""

    def __init__(self, seen: list[int | str]) -> None:
        self._seen = seen

    def __aiter__(self) -> "SilentClient":
        """Return itself."""
        return self

    def __anext__(self) -> asyncio.Future[bytes]:
        """Return what waits for a part."""
        self._seen.append("asked for a part")
        return asyncio.get_running_loop().create_future()

    def response_bytes(self, status: int, _headers: Any, _body: Any) -> None:
        """Take an answer."""
        self._seen.append(status)

    response_str = response_bytes


class Handler:
    """Stands for the service; it keeps each error that it meets, and with it the frames of the request."""

    def __init__(self) -> None:
        self._kept: list[Exception] = []

    def authenticate(self, request: Any, _passage: Any) -> None:
        """Refuse on the loop, where the gate asks this first."""
        self._read(request.read)

    def get_response(self, request: HttpRequest) -> HttpResponse:
        """Answer in a thread."""
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


class Found(NamedTuple):
    """What a client saw, in order, and whether the server's side outlived the request."""

    seen: list[int | str]
    is_held: bool


def serve(mode: str, path: str, length: int) -> Found:
    """Serve a silent client's POST. Only for a process of its own."""
    from petstore.serving import rsgi  # It starts all that a worker has.

    settings.SERVE_MODE = mode
    settings.CLIENT_SECONDS = CLIENT_SECONDS
    handler = Handler()
    rsgi.wsgi = handler  # type: ignore[assignment, attr-defined]
    ApiGate.steps = ApiGate.steps._replace(authenticate=handler.authenticate)
    scope = SimpleNamespace(
        method="POST", path=path, query_string="", headers={"host": "a", "content-length": str(length)},
        authority=None, scheme="http", http_version="1.1", client="127.0.0.1:50000",
        server="127.0.0.1:8000",
    )  # fmt: skip
    seen: list[int | str] = []
    client = SilentClient(seen)
    side = weakref.ref(client)
    request = rsgi.Application().__rsgi__(scope, client)
    del client
    asyncio.run(request)
    return Found(seen, is_held=side() is not None)


@pytest.mark.parametrize("mode", ["loop", "threads"])
@pytest.mark.parametrize(
    ("path", "length", "seen"),
    [
        ("/v1/pets", 10, ["asked for a part", 408]),
        ("/v1/pets", 60_000, [401, "asked for a part"]),  # What it sends is thrown away.
        ("/admin/login/", 10, ["asked for a part", 408]),
    ],
)
def test_ended_request_holds_nothing_of_the_server(
    process: ProcessPoolExecutor, mode: str, path: str, length: int, seen: list[int | str]
) -> None:
    assert process.submit(serve, mode, path, length).result() == Found(seen, is_held=False)
