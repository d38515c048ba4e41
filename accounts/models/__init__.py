"""Plans, accounts, API keys, events, webhooks, and records about requests."""

from accounts.models.api_keys import (
    EXPIRES_SOON,
    MAX_LIFETIME,
    ROTATION_OVERLAP,
    ApiKey,
    active_keys_q,
    get_key_mode,
    get_signing_pepper_number,
)
from accounts.models.events import Event, EventType, Feed, OutboxEvent, SentWarning
from accounts.models.members import Invitation, Membership, Role, open_account
from accounts.models.plans import EPOCH, Account, Plan, PlanCode
from accounts.models.records import (
    DailyUsage,
    DeprecatedUse,
    IdempotencyRecord,
    MinuteCount,
    MinuteHistogram,
    OperationUsage,
    QuotaUsage,
    RateLimitState,
    Rejection,
    StrikeCounter,
    UsageGeneration,
)
from accounts.models.webhook_attempts import WebhookAttempt
from accounts.models.webhooks import WebhookEndpoint
from petstore.audit import Actor
