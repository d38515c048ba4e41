"""Requests on the event loop: from the server to a greenlet, and back with the answer."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings

from petstore.event_loop.greenlets import RequestTask, StartLimiter
from petstore.server.bodies import Body, Exchange
from petstore.server.django_requests import ServedRequest
from petstore.server.shutdown import is_draining

logger = logging.getLogger(__name__)

Headers = list[tuple[str, str]]
GetResponse = Callable[[ServedRequest], Any]  # Returns a response, the API's or Django's.

start_limiter = StartLimiter()


async def serve_on_loop(scope: Any, exchange: Exchange, body: Body, respond: GetResponse) -> None:
    """Serve a request whose body is here in a greenlet, past the middleware: that is for pages.

    An answer that had to wait is sent when the loop comes back here, not by the greenlet: so what is
    future in one turn of the loop leaves together, and wakes the server's own thread once.
    """
    future = asyncio.get_running_loop().create_future()
    request = ServedRequest(scope, body)
    start_limiter.start(RequestTask(partial(run, partial(respond, request), future)).start)
    send(exchange, await future)


def run(respond: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
    """Answer a request; runs in its greenlet. Whoever waits is told even if it fails, with None."""
    response = None
    try:
        response = respond()
    finally:
        if not future.done():
            future.set_result(response)


def send(exchange: Exchange, response: Any) -> None:
    """Send an answer, or 500 instead of one that can't be sent."""
    try:
        respond(exchange, response)
    except Exception:
        logger.exception("An answer could not be sent.")
        exchange.protocol.response_bytes(500, [], b"")


def respond(exchange: Exchange, response: Any) -> None:
    """Send an answer that is complete. None of the API sets a cookie."""
    headers = [(name.lower(), value) for name, value in response.headers.items()]
    if settings.DRAIN_SECONDS:
        close_while_draining(headers)
    if body := response.content:
        exchange.protocol.response_bytes(response.status_code, headers, body)
    else:
        exchange.protocol.response_empty(response.status_code, headers)


def close_while_draining(headers: Headers) -> None:
    """End a connection with its answer while draining (RFC 9112 section 9.6).

    One that stayed open would be cut when the port closes, perhaps just as a client sends its next request.
    """
    if is_draining():
        headers.append(("connection", "close"))
