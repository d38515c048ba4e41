"""The request context: everything known about a request while it is being served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from django.conf import settings
from django.http import HttpRequest

from petstore.api.client_ip import get_client_address
from petstore.api.deprecation import Deprecation
from petstore.observability.request_ids import get_request_id
from petstore.observability.request_log import LoggedCaller


class Operation(NamedTuple):
    scope: str | None = None
    deprecation: Deprecation | None = None
    free: bool = False  # Not charged to the quota, and admitted even if that is used up (D39).


NO_OPERATION = Operation()


class Caller(LoggedCaller, Protocol):
    @property
    def scopes(self) -> frozenset[str]: ...


@dataclass(slots=True)
class RequestContext:
    """The context of one request. For pages, only `id` and `client` are set."""

    id: str  # X-Request-Id (D29).
    client: str  # The client's address, for the log.
    operation: Operation = NO_OPERATION  # Set by the view.
    caller: Caller | None = None  # Set by authentication.
    decision: object = None  # The RateLimitDecision.
    write_began: float | None = None  # Monotonic. Set if the request may write and there are replicas.

    @classmethod
    def start(cls, request: HttpRequest) -> RequestContext:
        meta = request.META
        address = meta.get("REMOTE_ADDR", "")
        if settings.TRUSTED_PROXY_COUNT:  # Otherwise there is nothing to parse.
            address = str(get_client_address(request))
        context = cls(get_request_id(meta.get("HTTP_X_REQUEST_ID", "")), address)
        request.context = context  # type: ignore[attr-defined]
        return context

    @staticmethod
    def get(request: HttpRequest) -> RequestContext:
        context: RequestContext = request.context  # type: ignore[attr-defined]
        return context
