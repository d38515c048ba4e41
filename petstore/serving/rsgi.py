"""The RSGI application: the API on the event loop or in threads, the pages for people in threads.

RSGI is granian's own interface ("RSGI specification" in its documentation). A request under /v1 runs in a
greenlet of the worker's loop (SERVE_MODE=loop); any other goes to the WSGI application in a thread, since a
page may wait for whatever it likes.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, lru_cache, partial
from typing import Any

import orjson
from django.conf import settings
from django.http.request import HttpHeaders
from whitenoise.middleware import WhiteNoiseFileResponse

from petstore.api.errors import RETRY_SECONDS, ApiError, ErrorCode, error_body, help_link
from petstore.api.gate import ApiGate, is_api_path
from petstore.backoffice.sessions import is_signed_in
from petstore.loop.waiting import Entrance, Turn
from petstore.observability import draining
from petstore.observability.metrics import SHED
from petstore.observability.request_ids import request_id
from petstore.serving import bodies, bounds
from petstore.serving.bodies import BODILESS, SMALL, Body, Exchange, Parts
from petstore.serving.slow_readers import cut_who_takes_nothing
from petstore.serving.wsgi import Utf8Request
from petstore.serving.wsgi import application as wsgi
from petstore.web.middleware import PROBES

logger = logging.getLogger(__name__)

Headers = list[tuple[str, str]]
Answer = Callable[["LoopRequest"], Any]  # Returns a response, the API's or Django's.

MOST_UNDER_WAY = 512  # Requests to the API in a worker; those beyond are told to come again.
MOST_UPLOADED = 8 * 1024 * 1024  # Bytes of a body to a page, from staff: more than any form takes.

pages = ThreadPoolExecutor(settings.THREADS, thread_name_prefix="page")
entrance = Entrance()
gate = ApiGate(wsgi.get_response)
probes = ThreadPoolExecutor(1, thread_name_prefix="probe")  # Pages that hang hold up no load balancer.


class LoopRequest(Utf8Request):
    """A request made from what RSGI tells, without the detour over a WSGI environment."""

    def __init__(self, scope: Any, body: Body) -> None:
        self.META = self.environ = meta_of(scope)
        self.META["CONTENT_LENGTH"] = str(body.length)
        self.path = self.path_info = scope.path
        self.method = scope.method.upper()
        if "CONTENT_TYPE" in self.META:
            self._set_content_type_params(self.META)
        else:
            self.content_type, self.content_params = "", {}
        self._stream = body.stream
        self._read_started = False
        self.resolver_match = None


# What a header says that the server could not decode: as WSGI has it, a character of Latin-1, and no ASCII.
UNREADABLE = "\xff"


@lru_cache(maxsize=1000)  # Clients may send any names.
def meta_name(header: str) -> str:
    """Return what META calls a header; nothing for one that could pass for another."""
    if "_" in header:
        return ""
    name = HttpHeaders.to_wsgi_name(header)
    return str(name)


def meta_of(scope: Any) -> dict[str, Any]:
    """Return Django's META: CGI's variables (RFC 3875 section 4.1) and the headers."""
    meta = {
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": scope.path,
        "QUERY_STRING": scope.query_string.encode().decode("latin-1"),
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "wsgi.url_scheme": scope.scheme,
    }
    meta["SERVER_NAME"], _, meta["SERVER_PORT"] = scope.server.rpartition(":")
    if scope.authority:  # HTTP/2 has it instead of Host.
        meta["HTTP_HOST"] = scope.authority
    for header, value in scope.headers.items():
        name = meta_name(header)
        if name in meta:  # Sent more than once (RFC 9110 section 5.3; RFC 9113 section 8.2.3).
            meta[name] += f"{'; ' if name == 'HTTP_COOKIE' else ','}{value}"
        else:
            meta[name] = value
    for header in scope.headers.keys():  # noqa: SIM118  No mapping. What is not ASCII is in no item.
        meta.setdefault(meta_name(header), UNREADABLE)
    meta.pop("", None)
    return meta


class Application:
    """What the server calls for each request. Bodies are read first: slow clients hold nobody up."""

    def __init__(self) -> None:
        self._under_way = 0
        self._serve_api = serve_on_loop if settings.SERVE_MODE == "loop" else serve_in_thread

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Prepare; the server calls it before it listens, and the loop runs when it does."""
        loop.call_soon(cut_who_takes_nothing, settings.CLIENT_SECONDS)
        bodies.end_when_told(loop)

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        exchange = Exchange(protocol)
        try:
            if not is_api_path(scope.path):
                await serve_page(scope, exchange)
            elif scope.method in BODILESS:
                await self._serve(scope, exchange, bodies.nothing())
            else:
                await self._receive(scope, exchange)
        finally:
            exchange.end()

    async def _receive(self, scope: Any, exchange: Exchange) -> None:
        parts = Parts(exchange)
        body = await api_body(scope, parts)
        await self._serve(scope, exchange, body)
        if body.error is not None:
            await bodies.discard(parts, body.error)

    async def _serve(self, scope: Any, exchange: Exchange, body: Body) -> None:
        """Serve a request to the API, unless too many are under way."""
        if self._under_way >= MOST_UNDER_WAY:
            SHED.inc()
            exchange.protocol.response_bytes(503, *come_again(scope))
            return
        self._under_way += 1
        try:
            await self._serve_api(scope, exchange, body)
        finally:
            self._under_way -= 1


async def serve_on_loop(scope: Any, exchange: Exchange, body: Body, answer: Answer = gate.answer) -> None:
    """Serve a request to the API in a greenlet: past Django's handler, whose middleware is for pages."""
    answered = asyncio.get_running_loop().create_future()
    request = LoopRequest(scope, body)
    entrance.enter(Turn(partial(run, partial(answer, request), exchange, answered)).begin)
    await answered


async def serve_in_thread(scope: Any, exchange: Exchange, body: Body, where: Executor = pages) -> None:
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(where, InThread(scope, exchange, loop).serve, body)


async def serve_page(scope: Any, exchange: Exchange) -> None:
    body = bodies.nothing()
    if scope.path == "/healthz":  # Whether the process lives, not whether it has a thread to spare.
        await serve_on_loop(scope, exchange, body, wsgi.get_response)
        return
    if scope.method not in BODILESS:
        parts = Parts(exchange)
        body = await page_body(scope, parts)
        if body.error is not None:
            exchange.protocol.response_str(*bodies.refusal(scope, body.error))
            await bodies.discard(parts, body.error)
            return
    await serve_in_thread(scope, exchange, body, probes if scope.path in PROBES else pages)


async def api_body(scope: Any, parts: Parts) -> Body:
    """Return the body of a request to the API. A large one is not even read without a key in its form."""
    declared = bodies.declared_length(scope)
    if declared is None or declared > SMALL:
        try:
            ApiGate.steps.check_form(scope.headers.get("authorization", ""))
        except ApiError as error:
            return bodies.unread(error)
    return await bodies.read(scope, parts, settings.MAX_BODY_BYTES)


async def page_body(scope: Any, parts: Parts) -> Body:
    """Return the body of a request for a page. Only who has signed in sends more than a small form."""
    declared = bodies.declared_length(scope)
    cookies = scope.headers.get("cookie", "")
    if cookies and (declared is None or declared > SMALL):
        loop = asyncio.get_running_loop()
        if await loop.run_in_executor(pages, is_signed_in, cookies):
            return await bodies.read(scope, parts, MOST_UPLOADED, bounds.staff)
    return await bodies.read(scope, parts, SMALL)


def run(answer: Callable[[], Any], exchange: Exchange, answered: "asyncio.Future[None]") -> None:
    """Send what a request is answered with; runs in its greenlet."""
    try:
        respond(exchange, answer())
    except Exception:
        logger.exception("An answer could not be sent.")
        exchange.protocol.response_bytes(500, [], b"")
    finally:
        if not answered.done():
            answered.set_result(None)


def respond(exchange: Exchange, response: Any) -> None:
    """Send an answer that is complete. None of the API sets a cookie."""
    headers = [(name.lower(), value) for name, value in response.headers.items()]
    if settings.DRAIN_SECONDS:
        part_while_draining(headers)
    if body := response.content:
        exchange.protocol.response_bytes(response.status_code, headers, body)
    else:
        exchange.protocol.response_empty(response.status_code, headers)


def part_while_draining(headers: Headers) -> None:
    """End a connection with its answer while draining (RFC 9112 section 9.6).

    One that stayed open would be cut when the port closes, perhaps just as a client sends its next request.
    """
    if draining.is_draining():
        headers.append(("connection", "close"))


@cache
def service_unavailable() -> tuple[Headers, bytes]:
    """Return what is the same in each 503 of a worker that has more to do than it can."""
    code = ErrorCode.SERVICE_UNAVAILABLE
    headers = [
        ("content-type", "application/json"),
        ("retry-after", str(RETRY_SECONDS)),
        ("cache-control", "no-store"),
        ("link", help_link(code)),
    ]
    return headers, orjson.dumps(error_body(code))


def come_again(scope: Any) -> tuple[Headers, bytes]:
    """Return the headers and body of such a 503."""
    headers, body = service_unavailable()
    sent = scope.headers.get("x-request-id", "")
    quota = [(name.lower(), value) for name, value in ApiGate.steps.untouched_headers().items()]
    return [*headers, ("x-request-id", request_id(sent)), *quota], body


class InThread:
    """A request that is served in a thread: WSGI's side of it there, RSGI's on the loop."""

    def __init__(self, scope: Any, exchange: Exchange, loop: asyncio.AbstractEventLoop) -> None:
        self._scope = scope
        self._exchange = exchange
        self._loop = loop
        self._status = 500
        self._headers: Headers = []

    def serve(self, body: Body) -> None:
        meta = meta_of(self._scope)
        meta["PATH_INFO"] = self._scope.path.encode().decode("latin-1")  # As PEP 3333 has it.
        meta["CONTENT_LENGTH"] = str(body.length)
        meta.pop("HTTP_RANGE", None)  # Files are sent whole (RFC 9110 section 14.2).
        response: Any = wsgi(meta | {"wsgi.input": body.stream}, self._start)
        try:
            if isinstance(response, WhiteNoiseFileResponse) and response.file_to_stream is not None:
                # The server reads it as its client takes it: nothing of it waits in memory.
                self._send(self._exchange.protocol.response_file, response.file_to_stream.name)
            elif response.streaming:
                self._stream(response)
            else:
                self._send(self._exchange.protocol.response_bytes, response.content)
        finally:
            response.close()

    def _start(self, status: str, headers: Headers, exc_info: Any = None) -> Any:
        self._status = int(status.split(" ", 1)[0])
        self._headers = [(name.lower(), value) for name, value in headers]
        part_while_draining(self._headers)

    def _send(self, respond: Callable[..., None], content: bytes | str) -> None:
        self._loop.call_soon_threadsafe(respond, self._status, self._headers, content)

    def _stream(self, response: Any) -> None:
        transport = self._exchange.protocol.response_stream(self._status, self._headers)

        async def send(part: bytes) -> None:
            await transport.send_bytes(part)

        for part in response:
            asyncio.run_coroutine_threadsafe(send(part), self._loop).result()


application = Application()
