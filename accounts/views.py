"""The /v1 viewsets of accounts."""

from datetime import datetime
from typing import Any

from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from accounts.keys.identity import caller_of
from accounts.keys.key_format import ACCOUNT_ID_LENGTH
from accounts.keys.scopes import stored_form
from accounts.quota.limits import SECOND, RateLimitDecision, Window, moment
from petstore.api.context import RequestContext
from petstore.api.responses import Response
from petstore.api.views import ApiView


class AccountViewSet(ViewSetMixin, ApiView):
    """What a key may know of its account and itself, and of what is left of the quota (D39)."""

    free_actions = {"retrieve"}

    def retrieve(self, request: Request) -> Response:
        """Return what the store has seen when it proved the key: nothing else is asked."""
        caller = caller_of(request)
        decision = RequestContext.of(request._request).decision
        facts = caller.facts
        assert facts is not None
        assert isinstance(decision, RateLimitDecision)
        return Response(
            {
                "account": {
                    "id": caller.public_id[:ACCOUNT_ID_LENGTH],
                    "name": facts.account_name,
                    "plan": facts.plan,
                    "createdAt": moment(facts.account_created_at),
                },
                "key": {
                    "id": caller.public_id,
                    "name": facts.name,
                    "scopes": stored_form(caller.scopes).split(),
                    "allowedNetworks": facts.networks,
                    "createdAt": moment(facts.created_at),
                    "expiresAt": moment_or_none(facts.expires_at),
                    "lastUsedAt": moment_or_none(facts.last_used_at),
                },
                "quota": {window.name: as_json(window) for window in decision.windows},
                "ban": {"until": whole_second(decision.banned_until)} if decision.banned else None,
            }
        )


def as_json(window: Window) -> dict[str, Any]:
    return {
        "limit": window.limit,
        "used": window.used,
        "remaining": window.remaining,
        "resetsAt": moment(window.reset * SECOND),
    }


def whole_second(microseconds: int) -> datetime:
    """Return the time rounded up, as X-RateLimit-Reset is: whoever waits for it is admitted."""
    return moment(-(-microseconds // SECOND) * SECOND)


def moment_or_none(microseconds: int) -> datetime | None:
    return moment(microseconds) if microseconds else None
