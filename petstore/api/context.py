"""The request context: everything known about a request while it is being served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from django.conf import settings
from django.http import HttpRequest

from petstore.api.client_ip import get_client_address
from petstore.api.deprecation import Deprecation
from petstore.db import replicas
from petstore.observability.request_ids import get_request_id


class Operation(NamedTuple):
    scope: str | None = None
    deprecation: Deprecation | None = None
    free: bool = False  # Not charged to the quota, and admitted even if that is used up (D39).


NO_OPERATION = Operation()


class Caller(NamedTuple):
    """The authenticated key and its account."""

    account_id: int
    key_id: int
    public_id: str
    scopes: frozenset[str]
    time_since_write: int = 0  # Microseconds since the account may last have written.
    is_authenticated: bool = True

    @property
    def database(self) -> str:
        """The alias of the database to read from: the primary, or a replica with the account's writes."""
        return replicas.choose_alias(self.account_id, self.time_since_write)


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
