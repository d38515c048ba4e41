"""Plans, accounts, API keys, events, and records about requests."""

from accounts.models.api_keys import (
    EXPIRES_SOON,
    MAX_LIFETIME,
    ROTATION_OVERLAP,
    ApiKey,
    active_keys_q,
    get_key_mode,
    get_signing_pepper_number,
)
from accounts.models.events import Event, EventDraft, EventType, Feed, Warned
from accounts.models.members import Invitation, Membership, Role, open_account
from accounts.models.plans import EPOCH, Account, Plan, PlanCode
from accounts.models.records import (
    AccountDayLoad,
    DailyUsage,
    DeprecatedUse,
    IdempotencyRecord,
    KeyStanding,
    MinuteLoad,
    QuotaUsage,
    Refusal,
    StrikeCounter,
    UsageGeneration,
)
from petstore.audit import Actor
