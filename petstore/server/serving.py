"""Serves a request whose body has been read: on the event loop or in a thread."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_started
from whitenoise.middleware import WhiteNoiseFileResponse

from petstore.db.event_loop.greenlets import RequestTask, StartLimiter
from petstore.server.bodies import Body, Exchange
from petstore.server.django_requests import RSGIRequest
from petstore.server.shutdown import is_draining
from petstore.server.wsgi import application as wsgi

logger = logging.getLogger(__name__)

Headers = list[tuple[str, str]]
GetResponse = Callable[[RSGIRequest], Any]  # Returns a response of the API or a Django response.

start_limiter = StartLimiter()
request_threads = ThreadPoolExecutor(settings.THREADS, thread_name_prefix="page")


async def serve_on_loop(scope: Any, exchange: Exchange, body: Body, get_response: GetResponse) -> None:
    """Run `get_response` in a greenlet, and send the response.

    This coroutine sends the response instead of the greenlet. Responses that are ready in the same loop
    iteration are therefore sent together, and wake granian's thread only once.
    """
    future = asyncio.get_running_loop().create_future()
    request = RSGIRequest(scope, body)
    start_limiter.start(RequestTask(partial(run, get_response, request, future)).start)
    send_response(exchange, await future)


def run(get_response: GetResponse, request: RSGIRequest, future: "asyncio.Future[Any]") -> None:
    """Set the future's result to the response, or to None if `get_response` raises."""
    response = None
    try:
        response = get_response(request)
    finally:
        if not future.done():
            future.set_result(response)


def send_response(exchange: Exchange, response: Any) -> None:
    try:
        headers = [(name.lower(), value) for name, value in response.headers.items()]
        if settings.DRAIN_SECONDS:
            close_while_draining(headers)
        if body := response.content:
            exchange.protocol.response_bytes(response.status_code, headers, body)
        else:
            exchange.protocol.response_empty(response.status_code, headers)
    except Exception:
        logger.exception("A response could not be sent.")
        exchange.protocol.response_bytes(500, [], b"")


async def serve_in_thread(
    scope: Any, exchange: Exchange, body: Body, executor: Executor = request_threads
) -> None:
    """Let Django respond in a thread of the executor, and send the response."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(executor, respond_in_thread, scope, exchange, body, loop)


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


def close_while_draining(headers: Headers) -> None:
    """While draining, close the connection after the response (RFC 9112 section 9.6).

    Otherwise the shutdown could close the connection during the client's next request.
    """
    if is_draining():
        headers.append(("connection", "close"))
