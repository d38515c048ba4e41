"""The RSGI application, which serves the API on the event loop or in threads, and pages in threads.

RSGI is granian's application interface (see "RSGI specification" in its documentation). With
SERVE_MODE=loop, requests under /v1 run in greenlets of the worker's event loop. Django serves all other
requests, except for /healthz, in threads, where blocking is allowed.
"""

import asyncio
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import orjson
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_started
from django.urls import Resolver404, resolve
from rest_framework.settings import api_settings
from whitenoise.middleware import WhiteNoiseFileResponse

from petstore.api.client_ip import get_client_network
from petstore.api.errors import RETRY_SECONDS, ApiError, ErrorCode, build_error_body, build_help_link
from petstore.api.pipeline import ApiPipeline, is_api_path
from petstore.backoffice.sessions import STAFF_PAGES, find_session_user
from petstore.event_loop import django_connections
from petstore.observability.metrics import SHED
from petstore.observability.request_ids import get_request_id
from petstore.server import bodies, body_limits
from petstore.server.bodies import BODILESS_METHODS, SMALL_BODY, Body, BodyParts, Exchange
from petstore.server.django_requests import RSGIRequest, build_meta
from petstore.server.event_loop_requests import Headers, close_while_draining, serve_on_loop
from petstore.server.slow_readers import set_send_timeout
from petstore.server.wsgi import application as wsgi
from petstore.site.middleware import PROBES
from petstore.site.page_limit import count_page
from petstore.site.password_hashers import QUEUE_SECONDS

if TYPE_CHECKING:
    from django.contrib.auth.models import User

MAX_CONCURRENT_REQUESTS = 512  # Per worker. Further API requests get 503.
MAX_FORMS = 4  # In progress, per worker and client network, except those of staff.
MAX_UPLOAD = settings.DATA_UPLOAD_MAX_MEMORY_SIZE  # Bytes of a form of the back office.
MAX_DISCARDED_UPLOAD = 8 * MAX_UPLOAD  # Bytes read after a 413, so that the browser shows the response.

TOO_MANY_FORMS = ApiError(ErrorCode.RATE_LIMIT_EXCEEDED, headers={"Retry-After": str(RETRY_SECONDS)})
CONNECT_REJECTED = ApiError(ErrorCode.METHOD_NOT_ALLOWED, headers={"Allow": ""})

# The forms in progress, by client network.
Clients = WeakValueDictionary[str, asyncio.Semaphore]

request_threads = ThreadPoolExecutor(settings.THREADS, thread_name_prefix="page")
pipeline = ApiPipeline(wsgi.get_response)
probe_threads = ThreadPoolExecutor(1, thread_name_prefix="probe")  # Hanging pages must not delay probes.


class Application:
    def __init__(self) -> None:
        self._in_progress = 0
        if settings.SERVE_MODE == "loop":
            django_connections.install()
        self._serve_api = (
            partial(serve_on_loop, get_response=pipeline.respond)
            if settings.SERVE_MODE == "loop"
            else serve_in_thread
        )
        self._form_queues = asyncio.Semaphore(), asyncio.Semaphore()  # Of anonymous and signed-in users.
        self._forms: Clients = WeakValueDictionary()

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Prepare the worker. granian calls this before the worker listens and before the loop runs."""
        loop.call_soon(set_send_timeout, settings.CLIENT_SECONDS)
        bodies.handle_sigterm(loop)

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        exchange = Exchange(protocol)
        try:
            if not is_api_path(scope.path):
                await self._serve_page(scope, exchange)
            elif scope.method in BODILESS_METHODS:
                await self._serve(scope, exchange, bodies.EMPTY_BODY)
            else:
                await self._receive(scope, exchange)
        finally:
            exchange.close()

    async def _serve_page(self, scope: Any, exchange: Exchange) -> None:
        user = None if scope.method in BODILESS_METHODS else await find_sender(scope)
        is_staff = user is not None and user.is_staff and scope.path.startswith(STAFF_PAGES)
        await serve_page(scope, exchange, self._form_queues[user is not None], self._forms, is_staff)

    async def _receive(self, scope: Any, exchange: Exchange) -> None:
        parts = BodyParts(exchange)
        body = await read_api_body(scope, parts, bodies.parse_content_length(scope))
        await self._serve(scope, exchange, body)
        if body.error is not None:
            await bodies.discard(parts, body.error)

    async def _serve(self, scope: Any, exchange: Exchange, body: Body) -> None:
        if self._in_progress >= MAX_CONCURRENT_REQUESTS:
            SHED.inc()
            exchange.protocol.response_bytes(503, *build_overload_response(scope))
        else:
            self._in_progress += 1
            try:
                await self._serve_api(scope, exchange, body)
            finally:
                self._in_progress -= 1


async def serve_in_thread(
    scope: Any, exchange: Exchange, body: Body, executor: Executor = request_threads
) -> None:
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(executor, respond_in_thread, scope, exchange, body, loop)


async def serve_form(
    scope: Any, exchange: Exchange, body: Body, queue: asyncio.Semaphore, clients: Clients
) -> None:
    """Serve a form, but reject it if its client has many in progress, which would delay others.

    While its body arrives, a form is not in progress: a slow client would lock out its network.
    """
    network = get_client_network(RSGIRequest(scope, body))
    in_progress = clients.setdefault(network, asyncio.Semaphore(MAX_FORMS))
    if in_progress.locked():
        exchange.protocol.response_str(*bodies.build_plain_error(scope, TOO_MANY_FORMS))
        return
    async with in_progress:
        await serve_queued(scope, exchange, body, queue)


async def serve_queued(scope: Any, exchange: Exchange, body: Body, queue: asyncio.Semaphore) -> None:
    """Serve the form submissions of a queue one at a time.

    They may need to hash a password, which is slow, and must not occupy all threads.
    """
    try:
        async with asyncio.timeout(QUEUE_SECONDS):
            await queue.acquire()
    except TimeoutError:
        await serve_in_thread(scope, exchange, Body(error=ApiError(ErrorCode.SERVICE_UNAVAILABLE)))
        return
    try:
        await serve_in_thread(scope, exchange, body)
    finally:
        queue.release()


async def serve_page(
    scope: Any, exchange: Exchange, queue: asyncio.Semaphore, clients: Clients, is_staff: bool
) -> None:
    body = bodies.EMPTY_BODY
    if scope.path == "/healthz":  # Liveness must not depend on a free thread.
        await serve_on_loop(scope, exchange, body, wsgi.get_response)
        return
    if scope.method == "CONNECT":  # Its target is a host and a port (RFC 9110 section 9.3.6).
        exchange.protocol.response_str(*bodies.build_plain_error(scope, CONNECT_REJECTED))
        return
    if scope.method not in BODILESS_METHODS:
        parts = BodyParts(exchange)
        body = await read_page_body(scope, parts, is_staff)
        if body.error is not None:
            if body.error.code is ErrorCode.PAYLOAD_TOO_LARGE:
                await serve_in_thread(scope, exchange, body)  # UnreadFormMiddleware renders the error.
            else:
                exchange.protocol.response_str(*bodies.build_plain_error(scope, body.error))
            limit = MAX_DISCARDED_UPLOAD if is_staff else bodies.MAX_DISCARDED
            await bodies.discard(parts, body.error, limit)
            return
    if scope.method.upper() == "POST" and not is_staff and await has_page(scope.path):
        await serve_form(scope, exchange, body, queue, clients)
    else:
        await serve_in_thread(
            scope, exchange, body, probe_threads if scope.path in PROBES else request_threads
        )


async def read_api_body(scope: Any, parts: BodyParts, content_length: int | None) -> Body:
    """Read the body of an API request. A large or chunked body requires a well-formed key."""
    if content_length is None or content_length > SMALL_BODY:
        try:
            authentication_class: Any = api_settings.DEFAULT_AUTHENTICATION_CLASSES[0]
            authentication_class.check_format(scope.headers.get("authorization", ""))
        except ApiError as error:
            return Body(error=error)
    return await bodies.read(content_length, parts, settings.MAX_BODY_BYTES)


async def find_sender(scope: Any) -> "User | None":
    cookies = build_meta(scope).get("HTTP_COOKIE", "")
    if settings.SESSION_COOKIE_NAME not in cookies:
        return None

    def find() -> "User | None":
        network = get_client_network(RSGIRequest(scope, bodies.EMPTY_BODY))
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


async def read_page_body(scope: Any, parts: BodyParts, is_staff: bool) -> Body:
    """Read the body of a page request. Only staff may send more than SMALL_BODY, to their pages."""
    content_length = bodies.parse_content_length(scope)
    if is_staff and (content_length is None or content_length > SMALL_BODY):
        return await bodies.read(content_length, parts, MAX_UPLOAD, body_limits.upload_budget)
    return await bodies.read(content_length, parts, SMALL_BODY)


@cache
def get_unavailable_response() -> tuple[Headers, bytes]:
    code = ErrorCode.SERVICE_UNAVAILABLE
    headers = [
        ("content-type", "application/json"),
        ("retry-after", str(RETRY_SECONDS)),
        ("cache-control", "no-store"),
        ("link", build_help_link(code)),
    ]
    return headers, orjson.dumps(build_error_body(code))


def build_overload_response(scope: Any) -> tuple[Headers, bytes]:
    headers, body = get_unavailable_response()
    client_id = scope.headers.get("x-request-id", "")
    throttle_class: Any = api_settings.DEFAULT_THROTTLE_CLASSES[0]
    quota = [(name.lower(), value) for name, value in throttle_class.get_unused_headers().items()]
    return [*headers, ("x-request-id", get_request_id(client_id)), *quota], body


def respond_in_thread(scope: Any, exchange: Exchange, body: Body, loop: asyncio.AbstractEventLoop) -> None:
    request = RSGIRequest(scope, body)
    request.META.pop("HTTP_RANGE", None)  # Ranges are not supported (RFC 9110 section 14.2).
    request_started.send(sender=WSGIHandler, environ=request.META)
    response: Any = wsgi.get_response(request)
    try:
        headers = [(name.lower(), value) for name, value in response.items()]
        headers += [("set-cookie", cookie.OutputString()) for cookie in response.cookies.values()]
        close_while_draining(headers)
        head = (response.status_code, headers)
        if isinstance(response, WhiteNoiseFileResponse) and response.file_to_stream is not None:
            # granian streams the file instead of reading it into memory.
            loop.call_soon_threadsafe(exchange.protocol.response_file, *head, response.file_to_stream.name)
        elif response.streaming:
            transport = exchange.protocol.response_stream(*head)
            for part in response:
                asyncio.run_coroutine_threadsafe(send_part(transport, part), loop).result()
        else:
            loop.call_soon_threadsafe(exchange.protocol.response_bytes, *head, response.content)
    finally:
        response.close()


async def send_part(transport: Any, part: bytes) -> None:
    await transport.send_bytes(part)


application = Application()
