"""How long usage is stored. Settings decide it for events and rejections."""

from datetime import timedelta

from django.db.models import Model

from accounts.models import DeprecatedUse, MinuteHistogram, OperationUsage
from accounts.quota.limits import HOUR, to_datetime
from petstore.db.batches import delete_in_batches

OPERATION_USAGE_HOURS, OPERATION_USAGE_DAYS = 48, 92  # Of the rows for an hour, and for a day.
RETENTION_DAYS: dict[type[Model], int] = {
    MinuteHistogram: 92,  # What-if looks back 30 days.
    DeprecatedUse: 400,  # Includes clients that call once a year.
}


def prune(now: int) -> None:
    """Delete usage beyond its retention. `now` is in microseconds since the epoch."""
    retentions = (
        (OperationUsage.HOUR, OPERATION_USAGE_HOURS),
        (OperationUsage.DAY, 24 * OPERATION_USAGE_DAYS),
    )
    for hours, kept in retentions:
        sum(delete_in_batches(OperationUsage.objects.filter(hours=hours, start__lt=now // HOUR - kept)))
    today = to_datetime(now).date()
    for model, days in RETENTION_DAYS.items():
        sum(delete_in_batches(model._default_manager.filter(day__lt=today - timedelta(days=days))))
