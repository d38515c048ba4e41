"""Explains rejections to staff and to customers."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from accounts.actions import Action
from accounts.keys.authentication import KEY_ERRORS
from accounts.models import ApiKey, Rejection
from petstore.api.errors import ErrorCode
from petstore.audit.models import AuditEntry
from petstore.text import format_time

NETWORK = Rejection.Reason.NETWORK_NOT_ALLOWED
KEY_ERROR_CODES: dict[str, ErrorCode] = {  # Those whose names differ from the reason.
    rejection.value: code for rejection, (code, _) in KEY_ERRORS.items()
}


def explain(rejections: list[Rejection], *, to_staff: bool) -> list[dict[str, Any]]:
    """Explain rejections. Customers are not told who lifted a ban."""
    now, unban_entries = timezone.now(), find_unban_entries(rejections)
    return [
        {
            "rejection": rejection,
            "error_code": get_error_code(rejection.reason),
            "windows": build_windows(rejection),
            "networks": ", ".join(rejection.key.allowed_networks) if rejection.reason == NETWORK else "",
            "ban": describe_ban(rejection, unban_entries, now, to_staff=to_staff),
        }
        for rejection in rejections
    ]


def get_error_code(reason: str) -> ErrorCode:
    return KEY_ERROR_CODES.get(reason) or ErrorCode[reason.upper()]


def with_error_codes(rejections: list[Rejection]) -> list[tuple[Rejection, ErrorCode]]:
    return [(rejection, get_error_code(rejection.reason)) for rejection in rejections]


def find_unban_entries(rejections: list[Rejection]) -> list[AuditEntry]:
    """Find the audit entries of lifted bans of these keys, the oldest first."""
    key_ids = [str(rejection.key_id) for rejection in rejections if rejection.ban_ends_at]
    entries = AuditEntry.objects.filter(model=ApiKey._meta.label_lower, object_id__in=key_ids)
    return list(entries.filter(action=Action.UNBANNED).order_by("id"))


def describe_ban(
    rejection: Rejection, unban_entries: list[AuditEntry], now: datetime, *, to_staff: bool
) -> str:
    ban_end = rejection.ban_ends_at
    if ban_end is None:
        return ""
    for entry in unban_entries:
        if entry.object_id == str(rejection.key_id) and rejection.rejected_at <= entry.at < ban_end:
            return f"Lifted {format_time(entry.at)}" + (f" by {entry.actor_name}" if to_staff else "")
    return f"{'Ended' if ban_end <= now else 'Ends'} {format_time(ban_end)}"


def build_windows(rejection: Rejection) -> list[tuple[str, Any, Any, datetime, datetime]]:
    """Return name, usage, limit, start and end (exclusive) of both windows at the time of the request."""
    minute_end, day_end = rejection.minute_ends_at, rejection.day_ends_at
    if minute_end is None or day_end is None:  # Not rejected by the quota.
        return []
    minute_start, day_start = minute_end - timedelta(minutes=1), day_end - timedelta(days=1)
    return [
        ("Minute", rejection.minute_used, rejection.minute_limit, minute_start, minute_end),
        ("Day (UTC)", rejection.day_used, rejection.day_limit, day_start, day_end),
    ]
