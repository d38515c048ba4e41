"""Plans, accounts and API keys, and what is counted for them."""

from accounts.models.counters import DailyUsage, IdempotencyRecord, KeyStanding, QuotaCounter
from accounts.models.keys import (
    MAX_LIFETIME,
    ROTATION_OVERLAP,
    Actor,
    ApiKey,
    KeyEvent,
    key_mode,
)
from accounts.models.plans import EPOCH, Account, Plan, PlanCode

__all__ = [
    "EPOCH",
    "MAX_LIFETIME",
    "ROTATION_OVERLAP",
    "Account",
    "Actor",
    "ApiKey",
    "DailyUsage",
    "IdempotencyRecord",
    "KeyEvent",
    "KeyStanding",
    "Plan",
    "PlanCode",
    "QuotaCounter",
    "key_mode",
]
