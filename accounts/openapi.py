"""The OpenAPI descriptions of keys, accounts and events.

Imported only when the document is built, because drf-spectacular is slow to import.
"""

from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from accounts.events.views import EventViewSet
from accounts.keys import key_format, scopes
from accounts.models import EventType, PlanCode
from accounts.models.events import TYPES
from accounts.quota.limits import PEEKS_PER_MINUTE
from accounts.views import AccountViewSet
from petstore.api.errors import ErrorCode as Code
from petstore.api.int64 import INT64_MAX
from petstore.api.openapi.operations import build_operation, describe_operations


class BearerKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "accounts.keys.authentication.BearerKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        description = "An API key: `Authorization: Bearer psk_live_...`."
        return {"type": "http", "scheme": "bearer", "description": description}


# --- The account (D39)

Plain = serializers.Serializer[Any]


class Account(Plain):
    id = serializers.CharField(
        min_length=key_format.ACCOUNT_ID_LENGTH,
        max_length=key_format.ACCOUNT_ID_LENGTH,
        help_text="The account's public ID. The IDs of its keys start with it.",
    )
    name = serializers.CharField(help_text="The account's name.")
    plan = serializers.ChoiceField(PlanCode.choices, help_text="The account's plan.")
    createdAt = serializers.DateTimeField(help_text="When the account was created.")


class Key(Plain):
    id = serializers.CharField(
        min_length=key_format.PUBLIC_ID_LENGTH,
        max_length=key_format.PUBLIC_ID_LENGTH,
        help_text="The key's public ID.",
    )
    name = serializers.CharField(allow_blank=True, help_text="What the key is for.")
    scopes = serializers.ListField(
        child=serializers.ChoiceField(scopes.SCOPES), help_text="The operations that the key may perform."
    )
    allowedNetworks = serializers.ListField(
        child=serializers.CharField(),
        help_text="The networks (CIDR) that the key may be used from. An empty list allows any network.",
    )
    createdAt = serializers.DateTimeField(help_text="When the key was issued.")
    expiresAt = serializers.DateTimeField(
        allow_null=True, help_text="When the key expires, or null if it does not expire."
    )
    lastUsedAt = serializers.DateTimeField(
        allow_null=True,
        help_text="When the key was last used before this request, or null if it was not. May lag by up to "
        "two minutes.",
    )


Int64 = partial(serializers.IntegerField, max_value=INT64_MAX)  # drf-spectacular adds the format.


class QuotaWindow(Plain):
    limit = Int64(min_value=1, help_text="The number of requests that the window allows.")
    used = Int64(min_value=0, help_text="The number of requests that the account has used.")
    remaining = Int64(min_value=0, help_text="The number of requests that remain.")
    resetsAt = serializers.DateTimeField(
        help_text="When the window resets. If no minute is running, this is a minute from now."
    )


class Quota(Plain):
    minute = QuotaWindow(help_text="The minute limit, which all keys of the account share.")
    day = QuotaWindow(help_text="The daily limit, which all keys of the account share. Days are in UTC.")


class Ban(Plain):
    until = serializers.DateTimeField(help_text="When the ban ends.")


class AccountOverview(Plain):
    """The account, the key of the request, its ban, and the quota."""

    account = Account()
    key = Key()
    quota = Quota()
    ban = Ban(allow_null=True, help_text="The key's ban, or null if it is not banned.")


QUOTA = {
    "minute": {"limit": 300, "used": 1, "remaining": 299, "resetsAt": "2026-11-23T09:30:41Z"},
    "day": {"limit": 10_000, "used": 260, "remaining": 9_740, "resetsAt": "2026-11-24T00:00:00Z"},
}
ACCOUNT = {
    "account": {"id": "4fKq9TzB", "name": "Acme Pets", "plan": "pro", "createdAt": "2026-03-02T09:30:00Z"},
    "key": {
        "id": "4fKq9TzBx2Lm7W",
        "name": "Warehouse",
        "scopes": ["pets:read", "pets:write"],
        "allowedNetworks": ["203.0.113.0/24"],
        "createdAt": "2026-03-02T09:31:12.500000Z",
        "expiresAt": None,
        "lastUsedAt": "2026-11-23T09:29:40.250000Z",
    },
    "quota": QUOTA,
    "ban": None,
}
BANNED_ACCOUNT = ACCOUNT | {
    "quota": QUOTA | {"minute": QUOTA["minute"] | {"used": 300, "remaining": 0}},
    "ban": {"until": "2026-11-23T09:35:02Z"},
}

RATE_LIMIT = {"cost": 0, "per": "key", "windows": ["minute"], "limit": PEEKS_PER_MINUTE, "refused-cost": 0}

describe_operations(
    AccountViewSet,
    "account",
    {
        "retrieve": build_operation(
            "getAccount",
            "Get your account and quota",
            "Returns your account, the key of this request, both windows of the quota, and any ban. The "
            "request does not count towards your quota. It also works while the quota is used up or the "
            "key is banned, so that you can see when to continue. Each key may send "
            f"{PEEKS_PER_MINUTE} of these requests per minute. Beyond that, the response is 429 with this "
            "limit in its headers, and does not count towards a ban.",
            response=(200, AccountOverview, "The account."),
            examples={"Account": ("An account.", ACCOUNT), "Banned": ("A banned key.", BANNED_ACCOUNT)},
            extensions={"x-rate-limit": RATE_LIMIT},
        )
    },
)


# --- The feed (D40 to D42)


class Event(Plain):
    id = Int64(
        min_value=1,
        help_text="The event's position in the feed. Positions of other accounts' events are skipped.",
    )
    type = serializers.CharField(
        help_text=f"The event's type: {', '.join(EventType.values)}. More types may be added."
    )
    createdAt = serializers.DateTimeField(help_text="When the event happened.")
    data = serializers.DictField(  # type: ignore[assignment]  # DRF removes declared fields from the class.
        help_text="The details of the event at that time. The fields depend on the type."
    )


KEY_DATA = {"key": {"id": "4fKq9TzBx2Lm7W", "name": "Warehouse", "expiresAt": "2026-11-30T00:00:00Z"}}
MEMBER_DATA = {"member": {"id": "7hQz2KdM", "role": "developer"}}
WEBHOOK_DATA = {"id": "Xq2Lm7WzT4fKq9", "description": "Warehouse", "failingSince": None}
FAILING_WEBHOOK_DATA = WEBHOOK_DATA | {"failingSince": "2026-11-23T08:29:58.750000Z"}
EVENT_DATA: dict[EventType, dict[str, Any]] = {
    EventType.MEMBER_INVITED: MEMBER_DATA,
    EventType.MEMBER_JOINED: MEMBER_DATA,
    EventType.MEMBER_REMOVED: MEMBER_DATA,
    EventType.PLAN_CHANGED: {"account": ACCOUNT["account"]},
    EventType.QUOTA_REACHED: {"window": "day", "limit": 10_000, "used": 8_000, "threshold": 80},
    EventType.WEBHOOK_FAILING: {"webhook": FAILING_WEBHOOK_DATA},
    EventType.WEBHOOK_DISABLED: {"webhook": FAILING_WEBHOOK_DATA},
    EventType.WEBHOOK_ENABLED: {"webhook": WEBHOOK_DATA},
}
EVENT_EXAMPLES: dict[EventType, dict[str, Any]] = {  # Inventory adds the data of its events.
    event_type: {
        "id": event_id,
        "type": event_type.value,
        "createdAt": "2026-11-23T09:30:00.250000Z",
        "data": EVENT_DATA.get(event_type, KEY_DATA),
    }
    for event_id, event_type in enumerate(EventType, 1)
}

describe_operations(
    EventViewSet,
    "events",
    {
        "list": build_operation(
            "listEvents",
            "List events",
            "Returns the events of pets, which all accounts see, and the events of your account, oldest "
            'first. Every page has `Link: rel="next"`. Follow it for later events; an empty page means '
            "that there are none yet. Each event appears once, in the same order for all accounts. Events "
            f"are stored for {settings.EVENT_RETENTION_DAYS} days. A webhook sends the same events to a "
            "URL of yours, each as a POST of one Event with the headers of Standard Webhooks: "
            "`webhook-id` is `evt_` and the event's id, the same in each attempt; `webhook-timestamp` "
            "is when the attempt was signed, in Unix seconds; `webhook-signature` is `v1,` and the "
            "base64 of the HMAC-SHA256 of id, timestamp and body, joined by periods. Add webhooks on "
            "the pages of your account. `webhook.failing`, `webhook.disabled` and `webhook.enabled` "
            "report their state.",
            response=(200, Event(many=True), "One page of events."),
            examples={"Page": ("One event of each type.", list(EVENT_EXAMPLES.values()))},
            errors=[Code.CURSOR_EXPIRED],
            parameters=[
                OpenApiParameter(
                    "type",
                    str,
                    enum=list(TYPES),
                    description="Return only events of this type, or of all types with this prefix.",
                ),
                OpenApiParameter(
                    "since",
                    datetime,
                    description="Start with the first event since this time. If the time is in the future, "
                    "start with the next event. Write a `+` as %2B. Cannot be combined with `cursor`.",
                ),
            ],
            # This example never precedes the oldest stored event (D42).
            extensions={"x-parameter-examples": {"type": "order", "since": "2099-01-01T00:00:00Z"}},
        )
    },
)
