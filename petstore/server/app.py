"""The RSGI application: the API on the event loop or in threads, pages in threads.

RSGI is granian's interface ("RSGI specification" in its documentation). Under /v1, requests run in
greenlets of the worker's event loop (SERVE_MODE=loop). Everything else is served by Django in a thread,
where blocking is allowed.
"""

import asyncio
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import orjson
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_started
from whitenoise.middleware import WhiteNoiseFileResponse

from petstore.api.errors import RETRY_SECONDS, ApiError, ErrorCode, build_error_body, build_help_link
from petstore.api.pipeline import ApiPipeline, is_api_path
from petstore.backoffice.sessions import is_signed_in
from petstore.observability.metrics import SHED
from petstore.observability.request_ids import get_request_id
from petstore.server import bodies, body_limits
from petstore.server.bodies import BODILESS_METHODS, SMALL_BODY, Body, Exchange, Parts
from petstore.server.django_requests import RSGIRequest, build_meta
from petstore.server.event_loop_requests import Headers, close_while_draining, serve_on_loop
from petstore.server.slow_readers import set_send_timeout
from petstore.server.wsgi import application as wsgi
from petstore.site.middleware import PROBES
from petstore.site.password_hashers import QUEUE_SECONDS

MAX_CONCURRENT_REQUESTS = 512  # API requests of a worker; further ones get 503.
MAX_UPLOAD = settings.DATA_UPLOAD_MAX_MEMORY_SIZE  # Bytes of a page request's body, from staff.
MAX_DISCARDED_UPLOAD = 8 * MAX_UPLOAD  # Bytes read after a 413, so that the browser shows it.

pages = ThreadPoolExecutor(settings.THREADS, thread_name_prefix="page")
pipeline = ApiPipeline(wsgi.get_response)
probes = ThreadPoolExecutor(1, thread_name_prefix="probe")  # Hanging pages must not delay probes.


class Application:
    def __init__(self) -> None:
        self._in_progress = 0
        self._on_loop = settings.SERVE_MODE == "loop"
        self._serve_api = (
            partial(serve_on_loop, get_response=pipeline.respond) if self._on_loop else serve_in_thread
        )
        self._anonymous_form = asyncio.Semaphore()

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Prepare the worker; the server calls this before it listens, and before the loop runs."""
        loop.call_soon(set_send_timeout, settings.CLIENT_SECONDS)
        bodies.handle_sigterm(loop)

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        exchange = Exchange(protocol)
        try:
            if not is_api_path(scope.path):
                await serve_page(scope, exchange, self._anonymous_form)
            elif scope.method in BODILESS_METHODS:
                await self._serve(scope, exchange, bodies.EMPTY_BODY)
            else:
                await self._receive(scope, exchange)
        finally:
            exchange.end()

    async def _receive(self, scope: Any, exchange: Exchange) -> None:
        parts = Parts(exchange)
        body = await api_body(scope, parts, bodies.declared_length(scope))
        await self._serve(scope, exchange, body)
        if body.error is not None:
            await bodies.discard(parts, body.error)

    async def _serve(self, scope: Any, exchange: Exchange, body: Body) -> None:
        if self._in_progress >= MAX_CONCURRENT_REQUESTS:
            SHED.inc()
            exchange.protocol.response_bytes(503, *overload_response(scope))
        else:
            self._in_progress += 1
            try:
                await self._serve_api(scope, exchange, body)
            finally:
                self._in_progress -= 1


async def serve_in_thread(scope: Any, exchange: Exchange, body: Body, executor: Executor = pages) -> None:
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(executor, respond_in_thread, scope, exchange, body, loop)


async def serve_queued(scope: Any, exchange: Exchange, body: Body, queue: asyncio.Semaphore) -> None:
    """Serve an anonymous form once it is its turn.

    It may need a password hash, and threads must not be blocked waiting for one.
    """
    try:
        async with asyncio.timeout(QUEUE_SECONDS):
            await queue.acquire()
    except TimeoutError:
        await serve_in_thread(scope, exchange, bodies.failed_body(ApiError(ErrorCode.SERVICE_UNAVAILABLE)))
        return
    try:
        await serve_in_thread(scope, exchange, body)
    finally:
        queue.release()


async def serve_page(scope: Any, exchange: Exchange, anonymous_form: asyncio.Semaphore) -> None:
    body, is_staff = bodies.EMPTY_BODY, False
    if scope.path == "/healthz":  # Liveness must not depend on a free thread.
        await serve_on_loop(scope, exchange, body, wsgi.get_response)
        return
    if scope.method not in BODILESS_METHODS:
        parts = Parts(exchange)
        is_staff = await has_session(scope)
        body = await page_body(scope, parts, is_staff)
        if body.error is not None:
            if body.error.code is ErrorCode.PAYLOAD_TOO_LARGE:
                await serve_in_thread(scope, exchange, body)  # FormLimitsMiddleware renders it.
            else:
                exchange.protocol.response_str(*bodies.plain_error(scope, body.error))
            limit = MAX_DISCARDED_UPLOAD if is_staff else bodies.MAX_DISCARDED
            await bodies.discard(parts, body.error, limit)
            return
    if scope.method.upper() == "POST" and not is_staff:
        await serve_queued(scope, exchange, body, anonymous_form)
    else:
        await serve_in_thread(scope, exchange, body, probes if scope.path in PROBES else pages)


async def api_body(scope: Any, parts: Parts, declared: int | None) -> Body:
    """Read the body of an API request. A large body is read only if the request has a well-formed key."""
    if declared is None or declared > SMALL_BODY:
        try:
            ApiPipeline.steps.check_key_format(scope.headers.get("authorization", ""))
        except ApiError as error:
            return bodies.failed_body(error)
    return await bodies.read(declared, parts, settings.MAX_BODY_BYTES)


async def has_session(scope: Any) -> bool:
    cookies = build_meta(scope).get("HTTP_COOKIE", "")
    if settings.SESSION_COOKIE_NAME not in cookies:
        return False
    return await asyncio.get_running_loop().run_in_executor(pages, is_signed_in, cookies)


async def page_body(scope: Any, parts: Parts, is_staff: bool) -> Body:
    """Read the body of a page request. Only staff who are signed in may send more than a small form."""
    declared = bodies.declared_length(scope)
    if is_staff and (declared is None or declared > SMALL_BODY):
        return await bodies.read(declared, parts, MAX_UPLOAD, body_limits.upload_budget)
    return await bodies.read(declared, parts, SMALL_BODY)


@cache
def service_unavailable() -> tuple[Headers, bytes]:
    code = ErrorCode.SERVICE_UNAVAILABLE
    headers = [
        ("content-type", "application/json"),
        ("retry-after", str(RETRY_SECONDS)),
        ("cache-control", "no-store"),
        ("link", build_help_link(code)),
    ]
    return headers, orjson.dumps(build_error_body(code))


def overload_response(scope: Any) -> tuple[Headers, bytes]:
    headers, body = service_unavailable()
    sent = scope.headers.get("x-request-id", "")
    quota = [(name.lower(), value) for name, value in ApiPipeline.steps.unused_quota_headers().items()]
    return [*headers, ("x-request-id", get_request_id(sent)), *quota], body


def respond_in_thread(scope: Any, exchange: Exchange, body: Body, loop: asyncio.AbstractEventLoop) -> None:
    request = RSGIRequest(scope, body)
    request.META.pop("HTTP_RANGE", None)  # Files are sent whole (RFC 9110 section 14.2).
    request_started.send(sender=WSGIHandler, environ=request.META)
    response: Any = wsgi.get_response(request)
    try:
        headers = [(name.lower(), value) for name, value in response.items()]
        headers += [("set-cookie", cookie.OutputString()) for cookie in response.cookies.values()]
        close_while_draining(headers)
        head = (response.status_code, headers)
        if isinstance(response, WhiteNoiseFileResponse) and response.file_to_stream is not None:
            # The server streams the file; it is never held in memory.
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
