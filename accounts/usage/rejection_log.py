"""The rejection log: recent rejections for staff and customers to look up, stored by write-behind.

Unknown keys and wrong secrets are excluded, since anyone can send those. To withstand floods, each process
logs a limited number per write, and per hour for each account and key, or address. It only counts the rest.
"""

import time
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest

from accounts.keys.key_format import ACCOUNT_ID_LENGTH
from accounts.models import ApiKey, Rejection
from accounts.quota.limits import RateLimitDecision, to_datetime
from petstore.api.client_ip import Address, get_client_address, get_network
from petstore.api.context import RequestContext
from petstore.db import batches
from petstore.observability.instrumentation import UNKNOWN_ROUTE, format_route
from petstore.observability.metrics import METHODS

MAX_PER_WRITE = 1_000
# Limits per hour apply to each process. An account's limits add up to less than MAX_PER_WRITE, so a
# noisy account can't displace the rejections of others (D49).
MAX_PER_KEY_AND_HOUR, MAX_PER_ACCOUNT_AND_HOUR = 250, 300
# Separate, lower limits for denied requests (401 and 403), most of which no quota limits. A flood with a
# revoked key must not displace any 429.
MAX_DENIED_PER_KEY, MAX_DENIED_PER_ADDRESS, MAX_DENIED_PER_ACCOUNT = 50, 20, 100
MAX_DENIED_PER_WRITE = MAX_PER_WRITE // 2
NO_SUCH_PATH = "(no such path)"


class RejectedRequest(NamedTuple):
    request_id: str
    public_id: str  # The key's.
    reason: str
    rejected_at: int  # Microseconds since the epoch.
    method: str
    route: str
    address: Address
    decision: RateLimitDecision | None = None  # Only if the quota rejected the request.
    scope: str = ""

    @classmethod
    def from_request(
        cls,
        request: HttpRequest,
        context: RequestContext,
        public_id: str,
        reason: str,
        *,
        decision: RateLimitDecision | None = None,
        scope: str = "",
    ) -> "RejectedRequest":
        match = request.resolver_match
        return cls(
            request_id=context.id,
            public_id=public_id,
            reason=reason,
            rejected_at=time.time_ns() // 1000 if decision is None else decision.now,
            method=request.method or "",
            route=match.route if match else "",
            address=get_client_address(request),
            decision=decision,
            scope=scope,
        )

    @property
    def hourly_limits(self) -> dict[str, int]:
        """The limits that this rejection counts towards, by name."""
        account_id = self.public_id[:ACCOUNT_ID_LENGTH]
        if self.decision is not None:
            return {
                f"key {self.public_id}": MAX_PER_KEY_AND_HOUR,
                f"account {account_id}": MAX_PER_ACCOUNT_AND_HOUR,
            }
        return {
            f"denied key {self.public_id}": MAX_DENIED_PER_KEY,
            f"denied address {account_id} {get_network(self.address)}": MAX_DENIED_PER_ADDRESS,
            f"denied account {account_id}": MAX_DENIED_PER_ACCOUNT,
        }


def store(rejected_requests: list[RejectedRequest]) -> None:
    """Store the rejections, except those of keys that have been deleted since."""
    if not rejected_requests:
        return
    public_ids = {rejected.public_id for rejected in rejected_requests}
    with transaction.atomic():
        keys = {key.public_id: key for key in ApiKey.objects.filter(public_id__in=public_ids)}
        stored = [rejected for rejected in rejected_requests if rejected.public_id in keys]
        rows = (build_row(rejected, keys[rejected.public_id]) for rejected in stored)
        Rejection.objects.bulk_create(rows, batch_size=MAX_PER_WRITE)


def build_row(rejected: RejectedRequest, key: ApiKey) -> Rejection:
    route = format_route(rejected.route)
    row = Rejection(
        request_id=rejected.request_id,
        rejected_at=to_datetime(rejected.rejected_at),
        account_id=key.account_id,
        key=key,
        reason=rejected.reason,
        method=rejected.method if rejected.method in METHODS else "(other)",
        route=NO_SUCH_PATH if route == UNKNOWN_ROUTE else route,
        address=str(rejected.address),
        scope=rejected.scope,
    )
    decision = rejected.decision
    if decision is not None:
        minute, day = decision.windows
        row.minute_limit, row.minute_used = minute.limit, minute.used
        row.day_limit, row.day_used = day.limit, day.used
        row.minute_ends_at, row.day_ends_at = to_datetime(minute.ends_at), to_datetime(day.ends_at)
        row.ban_ends_at = to_datetime(decision.banned_until) if decision.banned else None
    return row


def prune(now: int) -> None:
    """Delete expired rejections, and each account's oldest beyond MAX_REJECTIONS_PER_ACCOUNT."""
    batches.prune(
        Rejection.objects, "account_id", "rejected_at", now=to_datetime(now),
        retention=timedelta(days=settings.REJECTION_RETENTION_DAYS),
        max_rows=settings.MAX_REJECTIONS_PER_ACCOUNT,
    )  # fmt: skip
