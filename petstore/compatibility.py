"""Names of version 1 that version 2.0 accepts as well. The next version removes this module."""

from collections.abc import Iterator, MutableMapping

SETTINGS = {
    "EVENTS_KEPT_DAYS": "EVENT_RETENTION_DAYS",
    "REFUSALS_KEPT_DAYS": "REJECTION_RETENTION_DAYS",
    "REFUSALS_KEPT_MOST": "MAX_REJECTIONS_PER_ACCOUNT",
}
KEYS_REJECTED_METRIC, REJECTIONS_DROPPED_METRIC = (
    "petstore_keys_refused_total",
    "petstore_refusals_not_kept_total",
)
KEY_REJECTION_REASONS = {"lookup_throttled": "unchecked", "network_not_allowed": "elsewhere"}
REJECTIONS_PAGE = "admin/accounts/refusal/"


def apply_earlier_settings(environ: MutableMapping[str, str]) -> None:
    """Set the variables that are set by their earlier names only."""
    for old, new in SETTINGS.items():
        if environ.get(old) and not environ.get(new):
            environ[new] = environ[old]


def list_warnings(environ: MutableMapping[str, str]) -> Iterator[str]:
    for old, new in SETTINGS.items():
        if environ.get(old):
            yield f"{old} is now {new}. The next version ignores the earlier name."
