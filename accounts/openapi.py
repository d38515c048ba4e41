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

from accounts.events.views import TYPES
from accounts.keys import key_format, scopes
from accounts.models import EventType, PlanCode
from accounts.quota.limits import PEEKS_PER_MINUTE
from petstore.api.errors import ErrorCode as Code
from petstore.api.int64 import INT64_MAX
from petstore.api.openapi.operations import build_operation, register_operations


class BearerKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "accounts.keys.authentication.BearerKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key: `Authorization: Bearer psk_live_...`.",
        }


# --- The account (D39)

Plain = serializers.Serializer[Any]


class Account(Plain):
    id = serializers.CharField(
        min_length=key_format.ACCOUNT_ID_LENGTH,
        max_length=key_format.ACCOUNT_ID_LENGTH,
        help_text="The account's public id, with which the ids of its keys begin.",
    )
    name = serializers.CharField(help_text="The account's name.")
    plan = serializers.ChoiceField(PlanCode.choices, help_text="The account's plan.")
    createdAt = serializers.DateTimeField(help_text="When the account was created.")


class Key(Plain):
    id = serializers.CharField(
        min_length=key_format.PUBLIC_ID_LENGTH,
        max_length=key_format.PUBLIC_ID_LENGTH,
        help_text="The key's public id.",
    )
    name = serializers.CharField(allow_blank=True, help_text="What the key is for.")
    scopes = serializers.ListField(
        child=serializers.ChoiceField(scopes.SCOPES), help_text="What the key may do."
    )
    allowedNetworks = serializers.ListField(
        child=serializers.CharField(),
        help_text="The networks (CIDR) that the key may be used from; empty: from anywhere.",
    )
    createdAt = serializers.DateTimeField(help_text="When the key was issued.")
    expiresAt = serializers.DateTimeField(allow_null=True, help_text="When the key ends; null: never.")
    lastUsedAt = serializers.DateTimeField(
        allow_null=True,
        help_text="When the key was last used before, up to two minutes late; null: not yet.",
    )


Int64 = partial(serializers.IntegerField, max_value=INT64_MAX)  # drf-spectacular adds the format.


class QuotaWindow(Plain):
    limit = Int64(min_value=1, help_text="Requests that the window admits.")
    used = Int64(min_value=0, help_text="Requests that the account has used of them.")
    remaining = Int64(min_value=0, help_text="Requests that are left of them.")
    resetsAt = serializers.DateTimeField(
        help_text="When the window starts over. A minute that has not begun would begin with a request now."
    )


class Quota(Plain):
    minute = QuotaWindow(help_text="The minute that the account's requests share.")
    day = QuotaWindow(help_text="The day, in UTC.")


class Ban(Plain):
    until = serializers.DateTimeField(help_text="When the key is admitted again.")


class AccountOverview(Plain):
    """The account, the key that asks, and what is left of the quota."""

    account = Account()
    key = Key()
    quota = Quota()
    ban = Ban(allow_null=True, help_text="The key's ban; null: it is not banned.")


WINDOWS = {
    "minute": {"limit": 300, "used": 1, "remaining": 299, "resetsAt": "2026-11-23T09:30:41Z"},
    "day": {"limit": 10_000, "used": 260, "remaining": 9_740, "resetsAt": "2026-11-24T00:00:00Z"},
}
USED_UP = {"limit": 300, "used": 300, "remaining": 0, "resetsAt": "2026-11-23T09:30:41Z"}
RESPONSE = {
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
    "quota": WINDOWS,
    "ban": None,
}
BANNED = RESPONSE | {
    "quota": WINDOWS | {"minute": USED_UP},
    "ban": {"until": "2026-11-23T09:35:02Z"},
}

register_operations(
    "AccountViewSet",
    "account",
    {
        "retrieve": build_operation(
            "getAccount",
            "Get your account and what is left",
            "Returns your account, the key that asks, both windows of the quota as they are, and a ban. "
            "It costs nothing, and is answered while the quota is used up and while the key is banned, so "
            f"that you can see when to go on. A key may ask {PEEKS_PER_MINUTE} times a minute; beyond that "
            "the answer is 429, which is no strike, and its headers show this limit.",
            response=(200, AccountOverview, "The account."),
            examples={"Answer": ("An account.", RESPONSE), "Banned": ("A banned key.", BANNED)},
            extensions={
                "x-rate-limit": {
                    "cost": 0,
                    "per": "key",
                    "windows": ["minute"],
                    "limit": PEEKS_PER_MINUTE,
                    "refused-cost": 0,
                }
            },
        )
    },
)


# --- The feed (D40 to D42)


class Event(Plain):
    id = Int64(min_value=1, help_text="The event's place in the feed. The gaps are events that others see.")
    type = serializers.CharField(help_text=f"What happened: {', '.join(EventType.values)}. More may come.")
    createdAt = serializers.DateTimeField(help_text="When it happened.")
    data = serializers.DictField(  # type: ignore[assignment]  # DRF takes it out of the class.
        help_text="What the API showed just then; which members, the type says."
    )


OF_KEY = {"key": {"id": "4fKq9TzBx2Lm7W", "name": "Warehouse", "expiresAt": "2026-11-30T00:00:00Z"}}
DATA: dict[EventType, dict[str, Any]] = {
    EventType.PLAN_CHANGED: {"account": RESPONSE["account"]},
    EventType.QUOTA_REACHED: {"window": "day", "limit": 10_000, "used": 8_000, "threshold": 80},
}
EVENTS: list[dict[str, Any]] = [
    {
        "id": number,
        "type": kind.value,
        "createdAt": "2026-11-23T09:30:00.250000Z",
        "data": DATA.get(kind, OF_KEY),
    }
    for number, kind in enumerate(EventType, 1)
]


def add_event_examples(data: dict[EventType, dict[str, Any]]) -> None:
    """For the events of another app."""
    for event in EVENTS:
        event["data"] = data.get(EventType(event["type"]), event["data"])


register_operations(
    "EventViewSet",
    "events",
    {
        "list": build_operation(
            "listEvents",
            "Follow what happens",
            "Returns events, the oldest first: those of pets, which everybody sees, and those of your "
            'account. Follow `Link: rel="next"`, which every page has, for the next ones; an empty page '
            "means that there are none yet. Each event comes once, in the same order for everybody. Events "
            f"are kept for {settings.EVENTS_KEPT_DAYS} days.",
            response=(200, Event(many=True), "One page of events."),
            examples={"Page": ("One event of each type.", EVENTS)},
            errors=[Code.CURSOR_EXPIRED],
            parameters=[
                OpenApiParameter(
                    "type",
                    str,
                    enum=list(TYPES),
                    description="Return only events of this type, or of all types that begin so.",
                ),
                OpenApiParameter(
                    "since",
                    datetime,
                    description="Begin with the first event of this time; of a future time, with the next "
                    "event. A `+` in it is written as %2B. Not with `cursor`.",
                ),
            ],
            # A time that is always after the oldest stored event (D42).
            extensions={"x-parameter-examples": {"type": "order", "since": "2099-01-01T00:00:00Z"}},
        )
    },
)
