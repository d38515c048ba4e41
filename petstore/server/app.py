"""The RSGI application, which serves the API on the event loop or in threads, and pages in threads.

RSGI is granian's application interface (see "RSGI specification" in its documentation). With
SERVE_MODE=loop, requests under /v1 run in greenlets of the worker's event loop. Django serves all other
requests, except for /healthz, in threads, where blocking is allowed.
"""

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import orjson
from django.conf import settings
from django.urls import Resolver404, resolve
from rest_framework.settings import api_settings

from petstore.api.client_ip import get_client_network
from petstore.api.errors import RETRY_SECONDS, ApiError, ErrorCode, build_error_body, build_help_link
from petstore.api.pipeline import ApiPipeline, is_api_path
from petstore.backoffice.sessions import STAFF_PAGES, find_session_user
from petstore.db.event_loop import django_connections
from petstore.observability.metrics import SHED
from petstore.observability.request_ids import get_request_id
from petstore.server import bodies, body_limits, shutdown
from petstore.server.bodies import BODILESS_METHODS, EMPTY_BODY, SMALL_BODY, Body, Exchange
from petstore.server.django_requests import RSGIRequest, build_meta
from petstore.server.serving import Headers, request_threads, serve_in_thread, serve_on_loop
from petstore.server.wsgi import application as wsgi
from petstore.site.middleware import FORM_QUEUE_SECONDS, PROBES
from petstore.site.page_limit import count_page

if TYPE_CHECKING:
    from django.contrib.auth.models import User

MAX_CONCURRENT_REQUESTS = 512  # Per worker. Further API requests get 503.
MAX_FORMS = 4  # In progress, per worker and client network, except those of staff.
MAX_UPLOAD = settings.DATA_UPLOAD_MAX_MEMORY_SIZE  # Bytes of a form of the back office.
MAX_DISCARDED_UPLOAD = 8 * MAX_UPLOAD  # Bytes read after a 413, so that the browser shows the response.

PAGE_ERRORS = {
    ErrorCode.METHOD_NOT_ALLOWED: "This server is no proxy.",
    ErrorCode.RATE_LIMIT_EXCEEDED: "Your network is sending too many forms at once. Try again.",
    ErrorCode.REQUEST_TIMEOUT: "The request body did not arrive in time. Send the form again.",
    ErrorCode.MALFORMED_JSON: "The request body is incomplete. Send the form again.",
}
TOO_MANY_FORMS = ApiError(ErrorCode.RATE_LIMIT_EXCEEDED, headers={"Retry-After": str(RETRY_SECONDS)})
CONNECT_REJECTED = ApiError(ErrorCode.METHOD_NOT_ALLOWED, headers={"Allow": ""})

pipeline = ApiPipeline(wsgi.get_response)
probe_threads = ThreadPoolExecutor(1, thread_name_prefix="probe")  # Hanging pages must not delay probes.


class Application:
    def __init__(self) -> None:
        self._in_progress = 0  # Requests of the API.
        self._get_api_response: Any = serve_in_thread
        if settings.SERVE_MODE == "loop":
            django_connections.install()
            self._get_api_response = partial(serve_on_loop, get_response=pipeline.respond)
        # The forms in progress, by client network.
        self._forms: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._form_queues = asyncio.Semaphore(), asyncio.Semaphore()  # Of anonymous and signed-in users.

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Prepare the worker. granian calls this before the worker listens and before the loop runs."""
        loop.call_soon(set_send_timeout, settings.CLIENT_SECONDS)
        shutdown.handle_sigterm(loop)

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        exchange = Exchange(protocol)
        try:
            if is_api_path(scope.path):
                await self._serve_api(scope, exchange)
            else:
                await self._serve_page(scope, exchange)
        finally:
            exchange.close()

    async def _serve_api(self, scope: Any, exchange: Exchange) -> None:
        has_body = scope.method not in BODILESS_METHODS
        body = await read_api_body(scope, exchange) if has_body else EMPTY_BODY
        if self._in_progress >= MAX_CONCURRENT_REQUESTS:
            SHED.inc()
            exchange.protocol.response_bytes(503, *build_overload_response(scope))
        else:
            self._in_progress += 1
            try:
                await self._get_api_response(scope, exchange, body)
            finally:
                self._in_progress -= 1
        if body.error is not None:
            await bodies.discard(exchange, body.error)

    async def _serve_page(self, scope: Any, exchange: Exchange) -> None:
        if scope.path == "/healthz":  # Liveness must not depend on a free thread.
            await serve_on_loop(scope, exchange, EMPTY_BODY, wsgi.get_response)
        elif scope.method == "CONNECT":  # Its target is a host and a port (RFC 9110 section 9.3.6).
            reject(scope, exchange, CONNECT_REJECTED)
        elif scope.method in BODILESS_METHODS:
            threads = probe_threads if scope.path in PROBES else request_threads
            await serve_in_thread(scope, exchange, EMPTY_BODY, threads)
        else:
            await self._serve_submission(scope, exchange)

    async def _serve_submission(self, scope: Any, exchange: Exchange) -> None:
        user = await find_sender(scope)
        is_staff = user is not None and user.is_staff and scope.path.startswith(STAFF_PAGES)
        body = await read_page_body(scope, exchange, is_staff)
        if body.error is not None:
            if body.error.code is ErrorCode.PAYLOAD_TOO_LARGE:
                await serve_in_thread(scope, exchange, body)  # UnreadFormMiddleware renders the error.
            else:
                reject(scope, exchange, body.error)
            limit = MAX_DISCARDED_UPLOAD if is_staff else bodies.MAX_DISCARDED
            await bodies.discard(exchange, body.error, limit)
        elif scope.method.upper() == "POST" and not is_staff and await has_page(scope.path):
            await self._serve_form(scope, exchange, body, self._form_queues[user is not None])
        else:
            await serve_in_thread(scope, exchange, body)

    async def _serve_form(
        self, scope: Any, exchange: Exchange, body: Body, queue: asyncio.Semaphore
    ) -> None:
        """Serve the forms of a queue one at a time, and reject further ones of a client that has many.

        They may need to hash a password, which is slow, and must not occupy all threads. Forms of the back
        office, which has no passwords, skip the queue. While its body arrives, a form does not count as one
        of its client: a slow client would lock out its network.
        """
        network = get_client_network(RSGIRequest(scope, body))
        in_progress = self._forms.setdefault(network, asyncio.Semaphore(MAX_FORMS))
        if in_progress.locked():
            reject(scope, exchange, TOO_MANY_FORMS)
            return
        async with in_progress:
            try:
                async with asyncio.timeout(FORM_QUEUE_SECONDS):
                    await queue.acquire()
            except TimeoutError:
                await serve_in_thread(scope, exchange, Body(error=ApiError(ErrorCode.SERVICE_UNAVAILABLE)))
                return
            try:
                await serve_in_thread(scope, exchange, body)
            finally:
                queue.release()


async def read_api_body(scope: Any, exchange: Exchange) -> Body:
    """Read the body of an API request. A large or chunked body requires a well-formed key."""
    content_length = bodies.parse_content_length(scope)
    if content_length is None or content_length > SMALL_BODY:
        try:
            authentication_class: Any = api_settings.DEFAULT_AUTHENTICATION_CLASSES[0]
            authentication_class.check_format(scope.headers.get("authorization", ""))
        except ApiError as error:
            return Body(error=error)
    return await bodies.read(content_length, exchange, settings.MAX_BODY_BYTES)


async def read_page_body(scope: Any, exchange: Exchange, is_staff: bool) -> Body:
    """Read the body of a page request. Only staff may send more than SMALL_BODY, to their pages."""
    content_length = bodies.parse_content_length(scope)
    if is_staff and (content_length is None or content_length > SMALL_BODY):
        return await bodies.read(content_length, exchange, MAX_UPLOAD, body_limits.upload_budget)
    return await bodies.read(content_length, exchange, SMALL_BODY)


async def find_sender(scope: Any) -> "User | None":
    cookies = build_meta(scope).get("HTTP_COOKIE", "")
    if settings.SESSION_COOKIE_NAME not in cookies:
        return None

    def find() -> "User | None":
        network = get_client_network(RSGIRequest(scope, EMPTY_BODY))
        return None if count_page(network, 0) else find_session_user(cookies)

    return await asyncio.get_running_loop().run_in_executor(request_threads, find)


async def has_page(path: str) -> bool:
    """Return whether there is a page at the path."""

    def resolves() -> bool:
        try:
            return resolve(path) is not None
        except Resolver404:
            return False

    return await asyncio.get_running_loop().run_in_executor(request_threads, resolves)


def reject(scope: Any, exchange: Exchange, error: ApiError) -> None:
    """Respond to a request for a page without Django."""
    headers = {name.lower(): value for name, value in error.headers.items()}
    headers |= {"content-type": "text/plain", "connection": "close"}
    headers["x-request-id"] = get_request_id(scope.headers.get("x-request-id", ""))
    text = f"{PAGE_ERRORS[error.code]}\n"
    exchange.protocol.response_str(error.status_code, list(headers.items()), text)


def build_overload_response(scope: Any) -> tuple[Headers, bytes]:
    code = ErrorCode.SERVICE_UNAVAILABLE
    throttle_class: Any = api_settings.DEFAULT_THROTTLE_CLASSES[0]
    headers = [
        ("content-type", "application/json"),
        ("retry-after", str(RETRY_SECONDS)),
        ("cache-control", "no-store"),
        ("link", build_help_link(code)),
        ("x-request-id", get_request_id(scope.headers.get("x-request-id", ""))),
        *((name.lower(), value) for name, value in throttle_class.get_unused_headers().items()),
    ]
    return headers, orjson.dumps(build_error_body(code))


def set_send_timeout(seconds: int) -> None:
    """Let the kernel close connections whose client reads nothing for that many seconds.

    Connections inherit TCP_USER_TIMEOUT from their listening socket. It also applies while the client's
    receive window is zero (tcp(7)). granian has no such setting. A client that reads slowly keeps its
    connection and up to MAX_BUFFERED bytes.
    """
    for entry in Path("/proc/self/fd").iterdir():
        if entry.is_socket():
            with suppress(OSError), socket.socket(fileno=os.dup(int(entry.name))) as sock:
                if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)


application = Application()
