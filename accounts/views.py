"""The view of an account under /v1."""

from typing import Any

from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from accounts.keys.identity import get_caller
from accounts.keys.key_format import ACCOUNT_ID_LENGTH
from accounts.keys.scopes import join_scopes
from accounts.models import ApiKey
from accounts.quota.limits import SECOND, RateLimitDecision, Window, to_datetime
from petstore.api.context import RequestContext
from petstore.api.responses import Response
from petstore.api.views import ApiView
from petstore.db.event_loop.compiled_reads import Read

KEYS = Read(
    ApiKey,
    lambda: ApiKey.objects.values(
        "name", "allowed_networks", "created_at", "expires_at", "last_used_at",
        "account__name", "account__plan", "account__created_at",
    ),
)  # fmt: skip


class AccountViewSet(ViewSetMixin, ApiView):
    """The caller's account, key and quota (D39)."""

    free_actions = {"retrieve"}

    def retrieve(self, request: Request) -> Response:
        caller = get_caller(request)
        decision = RequestContext.get(request._request).decision
        assert isinstance(decision, RateLimitDecision)
        key = KEYS.where(public_id=caller.public_id).fetch_one()
        assert key is not None
        # Rounded up like X-RateLimit-Reset, so that a client that waits until then is admitted.
        ban_end = -(-decision.banned_until // SECOND) * SECOND
        return Response(
            {
                "account": {
                    "id": caller.public_id[:ACCOUNT_ID_LENGTH],
                    "name": key["account__name"],
                    "plan": key["account__plan"],
                    "createdAt": key["account__created_at"],
                },
                "key": {
                    "id": caller.public_id,
                    "name": key["name"],
                    "scopes": join_scopes(caller.scopes).split(),
                    "allowedNetworks": key["allowed_networks"],
                    "createdAt": key["created_at"],
                    "expiresAt": key["expires_at"],
                    "lastUsedAt": key["last_used_at"],
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
