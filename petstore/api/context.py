"""What is found out about one request on its way, by whoever finds it out, for whoever comes after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from django.conf import settings
from django.http import HttpRequest

from petstore.api.client_ip import client_address
from petstore.api.deprecation import Deprecation
from petstore.observability import instrumentation
from petstore.observability.request_ids import request_id


class Operation(NamedTuple):
    """What a view declares of one of its actions."""

    scope: str | None = None
    deprecation: Deprecation | None = None
    free: bool = False  # Costs nothing, and is answered although the quota is used up (D39).


NO_OPERATION = Operation()


@lru_cache(maxsize=256)  # Clients may send any method.
def operation_of(view: Callable[..., Any], method: str | None) -> Operation:
    """Return what a view of the URL map declares of this method."""
    action = getattr(view, "actions", {}).get("get" if method == "HEAD" else (method or "").lower())
    if action is None:
        return NO_OPERATION
    declared = vars(view)["cls"]  # DRF's as_view leaves the ApiView there.
    return Operation(
        declared.required_scopes.get(action),
        declared.deprecations.get(action),
        action in declared.free_actions,
    )


class Caller(instrumentation.Caller, Protocol):
    """Who sends a request with a valid key."""

    @property
    def scopes(self) -> frozenset[str]:
        """What the key may do."""


@dataclass(slots=True)
class RequestContext:
    """One request's; a page for people only has the first two."""

    id: str  # X-Request-Id (D29).
    client: str  # The address, as the log shows it.
    operation: Operation = NO_OPERATION  # What the path and the method name.
    caller: Caller | None = None  # Set once the key is proved.
    decision: object = None  # On the quota, by whoever counted the request.
    write_began: float | None = None  # By the monotonic clock, where replicas must know of a write.

    @classmethod
    def begin(cls, request: HttpRequest) -> RequestContext:
        """Return a request's new context, which stays with it."""
        meta = request.META
        # Without a proxy the address needs no reading, which would cost as much as the log's line.
        address = (
            str(client_address(request)) if settings.TRUSTED_PROXY_COUNT else meta.get("REMOTE_ADDR", "")
        )
        context = cls(request_id(meta.get("HTTP_X_REQUEST_ID", "")), address)
        request.context = context  # type: ignore[attr-defined]  # Django's requests take any.
        return context

    @staticmethod
    def of(request: HttpRequest) -> RequestContext:
        """Return the context of a request that has begun one."""
        context: RequestContext = request.context  # type: ignore[attr-defined]
        return context
