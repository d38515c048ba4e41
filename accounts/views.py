"""The view of an account under /v1."""

from typing import Any

from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from accounts.keys.identity import get_caller
from accounts.keys.key_format import ACCOUNT_ID_LENGTH
from accounts.keys.scopes import join_scopes
from accounts.quota.limits import SECOND, RateLimitDecision, Window, to_datetime
from petstore.api.context import RequestContext
from petstore.api.responses import Response
from petstore.api.views import ApiView


class AccountViewSet(ViewSetMixin, ApiView):
    """The caller's account, key and quota (D39)."""

    free_actions = {"retrieve"}

    def retrieve(self, request: Request) -> Response:
        """Serve everything from the quota store's peek, without another query."""
        caller = get_caller(request)
        decision = RequestContext.get(request._request).decision
        record = caller.record
        assert record is not None
        assert isinstance(decision, RateLimitDecision)
        # Rounded up like X-RateLimit-Reset, so that a client that waits until then is admitted.
        ban_end = -(-decision.banned_until // SECOND) * SECOND
        return Response(
            {
                "account": {
                    "id": caller.public_id[:ACCOUNT_ID_LENGTH],
                    "name": record.account_name,
                    "plan": record.plan,
                    "createdAt": to_datetime(record.account_created_at),
                },
                "key": {
                    "id": caller.public_id,
                    "name": record.name,
                    "scopes": join_scopes(caller.scopes).split(),
                    "allowedNetworks": record.networks,
                    "createdAt": to_datetime(record.created_at),
                    "expiresAt": to_datetime(record.expires_at) if record.expires_at else None,
                    "lastUsedAt": to_datetime(record.last_used_at) if record.last_used_at else None,
                },
                "quota": {window.name: serialize_window(window) for window in decision.windows},
                "ban": {"until": to_datetime(ban_end)} if decision.banned else None,
            }
        )


def serialize_window(window: Window) -> dict[str, Any]:
    return {
        "limit": window.limit,
        "used": window.used,
        "remaining": window.remaining,
        "resetsAt": to_datetime(window.reset * SECOND),
    }
