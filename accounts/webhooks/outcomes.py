"""Records outcomes of attempts, and what follows: the next event, another try, or the end (D54)."""

import random
from datetime import datetime, timedelta

from accounts.actions import Action
from accounts.models import WebhookAttempt, WebhookEndpoint
from accounts.models.api_keys import SERVICE
from accounts.webhooks.sender import Outcome
from petstore import audit

DELAYS = (5, 30, 120, 600, 1800, 3600)  # Seconds after the first failure, the second, and so on.
MAX_RETRY_AFTER = 3600
JITTER = 1.2
GIVE_UP_AFTER = timedelta(days=5)
PARK_AFTER, MIN_PARKING_TIME = 6, timedelta(minutes=30)


def get_delay(failures: int, outcome: Outcome) -> timedelta:
    """Return how long to wait after this many failures with an event."""
    seconds = DELAYS[min(failures, len(DELAYS)) - 1]
    seconds = max(seconds, min(outcome.retry_after or 0, MAX_RETRY_AFTER))
    return timedelta(seconds=seconds * random.uniform(1, JITTER))  # noqa: S311


def blames_event(outcome: Outcome) -> bool:
    """Return whether the receiver rejects the event, rather than being unable to take any."""
    status = outcome.status
    return status is not None and status < 500 and status not in {408, 429}


def apply_outcome(
    endpoint: WebhookEndpoint, attempt: WebhookAttempt, outcome: Outcome, now: datetime
) -> None:
    """Advance the locked endpoint past the event, or schedule the next attempt. Saves neither."""
    if outcome.error is None:
        endpoint.failing_since, endpoint.last_delivered_at = None, now
        advance(endpoint, attempt.event_id)
        return
    endpoint.attempts += 1
    first_attempt_at = endpoint.first_attempt_at = endpoint.first_attempt_at or now
    endpoint.failing_since = endpoint.failing_since or now
    endpoint.warn(now)
    is_rejected = blames_event(outcome)
    if outcome.status == 410:
        disable(endpoint, endpoint.DisabledBy.GONE, now)
    elif not is_rejected and now - first_attempt_at >= GIVE_UP_AFTER:
        disable(endpoint, endpoint.DisabledBy.FAILING, now)
    elif is_rejected and endpoint.attempts >= PARK_AFTER and now - first_attempt_at >= MIN_PARKING_TIME:
        attempt.parked = True
        advance(endpoint, attempt.event_id)
    else:
        endpoint.next_attempt_at = attempt.next_attempt_at = now + get_delay(endpoint.attempts, outcome)
        endpoint.lease = ""


def advance(endpoint: WebhookEndpoint, event_id: int) -> None:
    endpoint.position, endpoint.attempts, endpoint.first_attempt_at = event_id, 0, None


def disable(endpoint: WebhookEndpoint, origin: WebhookEndpoint.DisabledBy, now: datetime) -> None:
    before = endpoint.get_audit_values()
    endpoint.set_disabled(origin, now)
    audit.record(SERVICE, endpoint, Action.DISABLED, before=before, after=endpoint.get_audit_values())


def record_requested(attempt: WebhookAttempt) -> None:
    """Record a requested attempt. A success settles the parked event."""
    fields = ("created_at", "due_at", "status", "milliseconds", "error", "response")
    WebhookAttempt.objects.filter(pk=attempt.pk).update(**{name: getattr(attempt, name) for name in fields})
    if not attempt.error:
        parked = WebhookAttempt.objects.filter(endpoint=attempt.endpoint_id, parked=True)
        parked.filter(event_id=attempt.event_id).update(parked=False)
