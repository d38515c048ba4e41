"""Serves requests in greenlets of the event loop."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings

from petstore.event_loop.greenlets import RequestTask, StartLimiter
from petstore.server.bodies import Body, Exchange
from petstore.server.django_requests import RSGIRequest
from petstore.server.shutdown import is_draining

logger = logging.getLogger(__name__)

Headers = list[tuple[str, str]]
GetResponse = Callable[[RSGIRequest], Any]  # Returns a response of the API or a Django response.

start_limiter = StartLimiter()


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


def close_while_draining(headers: Headers) -> None:
    """While draining, close the connection after the response (RFC 9112 section 9.6).

    Otherwise the shutdown could close the connection during the client's next request.
    """
    if is_draining():
        headers.append(("connection", "close"))
