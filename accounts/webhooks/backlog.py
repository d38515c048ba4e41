"""The events of the feed that an endpoint has not been sent yet."""

from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.core.exceptions import ValidationError
from django.db.models import BigIntegerField, Min, Value
from django.utils import timezone

from accounts.events import feed
from accounts.models import Actor, Event, Feed, WebhookAttempt, WebhookEndpoint
from accounts.models.events import PUBLIC_ACCOUNT_ID
from accounts.models.webhooks import TEST_TYPE
from accounts.quota.limits import SECOND, to_microseconds
from petstore.api.errors import ApiError
from petstore.observability.metrics import WEBHOOK_BACKLOG, WEBHOOK_DELAY, WEBHOOKS_FAILING

PAGE_SIZE = 20  # Events that a process holds for each endpoint.


class Message(NamedTuple):
    """An event as it is sent."""

    event_id: int
    event_type: str
    body: bytes


class Page(NamedTuple):
    messages: list[Message]
    end: int  # The position after the page, or of the newest event if the page is not full.
    lost_until: int | None  # Events up to this one were pruned before they were sent.


def fetch_page(endpoint: WebhookEndpoint, size: int = PAGE_SIZE) -> Page:
    """Fetch the next events of the types that the endpoint wants."""
    start, types, lost_until = endpoint.position, endpoint.event_types, None
    while True:
        try:
            events, end = feed.fetch_events(endpoint.account_id, feed.Position(start), size, types)
        except ApiError:  # The position is not in the feed, or no longer.
            bounds = Feed.objects.get()
            start = min(max(start, bounds.last_pruned_id), bounds.last_id)
            lost_until = start if start > endpoint.position else None
        else:
            break
    return Page(
        [Message(event["id"], event["type"], serialize(event)) for event in events], end.id, lost_until
    )


def serialize(event: dict[str, Any]) -> bytes:
    return orjson.dumps(event, option=orjson.OPT_UTC_Z)


def get_oldest_time(endpoint: WebhookEndpoint) -> datetime | None:
    """Return when the oldest event that has not been delivered happened, or None if there is none."""
    messages = fetch_page(endpoint, size=1).messages
    return datetime.fromisoformat(orjson.loads(messages[0].body)["createdAt"]) if messages else None


def build_message(attempt: WebhookAttempt) -> Message | None:
    """Build what the attempt sent or will send. None if the event is no longer stored.

    After a failover that lost events, its ID may be that of another account's event.
    """
    if attempt.kind == WebhookAttempt.Kind.TEST:
        endpoint = attempt.endpoint
        data = orjson.dumps({"webhook": {"id": endpoint.public_id, "description": endpoint.description}})
        created_at = to_microseconds(attempt.created_at)
        row: Any = (attempt.event_id, TEST_TYPE, created_at, data.decode())
    else:
        readable = [PUBLIC_ACCOUNT_ID, attempt.endpoint.account_id]
        rows = Event.objects.filter(pk=attempt.event_id, account_id__in=readable)
        row = rows.values_list("id", "type", "created_at", "data").first()
    return Message(attempt.event_id, row[1], serialize(feed.serialize_event(*row))) if row else None


def measure() -> None:
    """Set the gauges of webhooks."""
    now = timezone.now()
    enabled = WebhookEndpoint.objects.filter(disabled_at=None, account__suspended_at=None)
    WEBHOOKS_FAILING.set(enabled.filter(failing_since__isnull=False).count())
    due_at = enabled.aggregate(earliest=Min("next_attempt_at"))["earliest"]
    WEBHOOK_DELAY.set(max(0, (now - due_at).total_seconds()) if due_at else 0)
    position = enabled.filter(next_attempt_at__isnull=False).aggregate(oldest=Min("position"))["oldest"]
    # Without a waiting endpoint, the comparison with null matches no event.
    events = Event.objects.filter(pk__gt=Value(position, BigIntegerField())).order_by("pk")
    created_at = events.values_list("created_at", flat=True).first()
    WEBHOOK_BACKLOG.set(max(0, to_microseconds(now) - created_at) / SECOND if created_at else 0)


def replay_since(endpoint: WebhookEndpoint, since: datetime, *, by: Actor) -> None:
    """Deliver the events since a time again. Raises ValidationError like `WebhookEndpoint.replay`."""
    try:
        after = feed.find_id_before(to_microseconds(since))
    except ApiError:
        raise ValidationError("Events from this time are no longer stored.") from None
    endpoint.replay(after=after, by=by)
