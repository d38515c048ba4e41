"""Client of the Pet Store API. Start with `Client`."""

from petstore_client.client import Client
from petstore_client.errors import (
    ApiDeprecationWarning, ApiError, ConnectionFailedError, ErrorDetail, EventsLostWarning, PetstoreError,
    RateLimit, RateLimitError, WebhookError,
)  # fmt: skip
from petstore_client.models import (
    Account, AccountOverview, Ban, Category, Event, Key, NewPet, Order, Page, Pet, Quota, QuotaWindow,
)  # fmt: skip
from petstore_client.webhooks import verify_webhook

__all__ = [
    "Account", "AccountOverview", "ApiDeprecationWarning", "ApiError", "Ban", "Category", "Client",
    "ConnectionFailedError", "ErrorDetail", "Event", "EventsLostWarning", "Key", "NewPet", "Order", "Page",
    "Pet", "PetstoreError", "Quota", "QuotaWindow", "RateLimit", "RateLimitError", "WebhookError",
    "verify_webhook",
]  # fmt: skip
