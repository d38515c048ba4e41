"""The request context: everything known about a request while it is served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from django.conf import settings
from django.http import HttpRequest

from petstore.api.client_ip import client_address
from petstore.api.deprecation import Deprecation
from petstore.observability.request_ids import get_request_id
from petstore.observability.request_log import LoggedCaller


class Operation(NamedTuple):
    scope: str | None = None
    deprecation: Deprecation | None = None
    free: bool = False  # Not counted, and allowed after the quota is used up (D39).


NO_OPERATION = Operation()


@lru_cache(maxsize=256)  # Clients may send any method.
def operation_of(view: Callable[..., Any], method: str | None) -> Operation:
    action = getattr(view, "actions", {}).get("get" if method == "HEAD" else (method or "").lower())
    if action is None:
        return NO_OPERATION
    declared = vars(view)["cls"]  # Set by DRF's as_view.
    return Operation(
        declared.required_scopes.get(action),
        declared.deprecations.get(action),
        action in declared.free_actions,
    )


class Caller(LoggedCaller, Protocol):
    @property
    def scopes(self) -> frozenset[str]: ...


@dataclass(slots=True)
class RequestContext:
    """The context of one request. Requests for pages only have `id` and `client`."""

    id: str  # X-Request-Id (D29).
    client: str  # The address for the log.
    operation: Operation = NO_OPERATION  # Named by path and method.
    caller: Caller | None = None  # Set by authentication.
    decision: object = None  # The RateLimitDecision.
    write_began: float | None = None  # Monotonic time, if replicas must catch up with a write.

    @classmethod
    def start(cls, request: HttpRequest) -> RequestContext:
        meta = request.META
        # Without a proxy there is nothing to parse.
        address = (
            str(client_address(request)) if settings.TRUSTED_PROXY_COUNT else meta.get("REMOTE_ADDR", "")
        )
        context = cls(get_request_id(meta.get("HTTP_X_REQUEST_ID", "")), address)
        request.context = context  # type: ignore[attr-defined]
        return context

    @staticmethod
    def of(request: HttpRequest) -> RequestContext:
        context: RequestContext = request.context  # type: ignore[attr-defined]
        return context
