"""Webhook endpoints (D51 to D57).

An endpoint follows the feed from a position of its own. No row is written for an event until it is sent, so
nothing is lost while an endpoint fails or is disabled, as long as the feed stores the events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.signing import BASE62_ALPHABET
from django.db import models, transaction
from django.db.models import CheckConstraint, Index, Q, QuerySet
from django.utils import timezone
from django.utils.crypto import get_random_string

from accounts.actions import Action
from accounts.models.api_keys import get_signing_pepper_number
from accounts.models.events import PUBLIC_ACCOUNT_ID, TYPES, Event, EventType, Feed, OutboxEvent
from accounts.models.members import mail_managers
from accounts.models.plans import Account
from accounts.models.records import Record
from accounts.models.webhook_attempts import WebhookAttempt
from accounts.quota.limits import to_microseconds
from accounts.webhooks import signing
from accounts.webhooks.targets import check_url
from petstore import audit
from petstore.audit import Actor
from petstore.audit.models import AuditEntry, AuditQuerySet
from petstore.observability.redaction import contains_key
from petstore.text import format_time

PUBLIC_ID_LENGTH = 14
MAX_ENDPOINTS = 10  # Per account.
MAX_PENDING = 20  # Requested attempts of an endpoint that have not been made yet.
DEFAULT_TYPES = ("order", "key", "quota", "plan", "webhook")
SECRET_OVERLAP = timedelta(hours=24)
WARNING_HOURS = (1, 24)  # D57
AUDITED_FIELDS = (
    "url", "description", "types", "disabled_at", "disabled_by", "secret_version", "old_secret_ends_at",
    "position",
)  # fmt: skip
TEST_TYPE = "webhook.ping"
TEST_EVENT_ID = 0  # A test has no position in the feed.


def join_types(types: Collection[str]) -> str:
    """Return the types and prefixes of types as they are stored. Raises ValidationError."""
    if unknown := set(types) - TYPES.keys():
        raise ValidationError({"types": f"Unknown event type: {', '.join(sorted(unknown))}."})
    if not types:
        raise ValidationError({"types": "Choose at least one event type."})
    # A type within a chosen prefix adds nothing.
    return " ".join(
        name
        for name in TYPES
        if name in types and not any(name.startswith(other) for other in types if other != name)
    )


class WebhookEndpointManager(models.Manager["WebhookEndpoint"]):
    def add(
        self,
        account: Account,
        *,
        url: str,
        description: str = "",
        types: Collection[str] = DEFAULT_TYPES,
        by: Actor,
    ) -> WebhookEndpoint:
        """Create an endpoint, which gets the events from now on.

        Raises ValidationError, by argument; also for a suspended account, or one with MAX_ENDPOINTS.
        """
        endpoint = self.model(
            account=account, url=check_url(url), description=description, types=join_types(types)
        )
        endpoint.full_clean()
        with transaction.atomic():
            account.lock(reject_suspended=True)
            if account.webhooks.count() >= MAX_ENDPOINTS:
                raise ValidationError(f"An account can have at most {MAX_ENDPOINTS} webhooks.")
            endpoint.position = Feed.objects.get().last_id
            endpoint.save(force_insert=True)
            audit.record(by, endpoint, audit.Action.ADDED, after=endpoint.get_audit_values())
        return endpoint

    def needing_attention(self, now: datetime) -> QuerySet[WebhookEndpoint]:
        """Select those that have failed for an hour, or that no member disabled."""
        is_failing = Q(disabled_at=None, failing_since__lte=now - timedelta(hours=WARNING_HOURS[0]))
        return self.filter(is_failing | ~Q(disabled_by__in=["", WebhookEndpoint.DisabledBy.MEMBER]))


def new_public_id() -> str:
    return get_random_string(PUBLIC_ID_LENGTH, BASE62_ALPHABET)


class WebhookEndpoint(Record):
    """A URL that gets the events of an account.

    `next_attempt_at` is when a process has to take the endpoint: at once if events wait, later after a
    failure, or never (null) if nothing waits. While a process has it, this is when its lease ends.
    """

    class DisabledBy(models.TextChoices):
        MEMBER = "member", "Disabled"
        STAFF = "staff", "Disabled by us"
        FAILING = "failing", "Disabled after 5 days without a success"
        GONE = "gone", "Disabled because it responded with 410"

    account = models.ForeignKey(Account, models.CASCADE, related_name="webhooks")
    public_id = models.CharField(
        "public ID", max_length=PUBLIC_ID_LENGTH, unique=True, default=new_public_id
    )
    url = models.CharField("URL", max_length=2000)
    description = models.CharField(max_length=255, blank=True)
    types = models.CharField(max_length=1000)  # Types and prefixes of types, separated by spaces.
    created_at = models.DateTimeField(default=timezone.now)
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_by = models.CharField(max_length=10, blank=True, choices=DisabledBy)

    secret_version = models.PositiveIntegerField(default=1)
    pepper_number = models.PositiveSmallIntegerField(default=get_signing_pepper_number)
    old_pepper_number = models.PositiveSmallIntegerField(null=True, blank=True)
    old_secret_ends_at = models.DateTimeField(null=True, blank=True)

    position = models.BigIntegerField(default=0)  # The last event that was delivered or skipped.
    attempts = models.PositiveIntegerField(default=0)  # Failed ones with the next event.
    first_attempt_at = models.DateTimeField(null=True, blank=True)  # With the next event.
    failing_since = models.DateTimeField(null=True, blank=True)  # The first failure since a success.
    last_delivered_at = models.DateTimeField(null=True, blank=True)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    lease = models.CharField(max_length=16, blank=True)  # The token of the process that has it.

    objects = WebhookEndpointManager()

    class Meta:
        verbose_name = "webhook"
        ordering = ["pk"]
        default_permissions = ()  # Access requires the permissions for accounts.
        indexes = [
            Index(
                fields=["next_attempt_at"],
                name="webhook_by_next_attempt",
                condition=Q(next_attempt_at__isnull=False, disabled_at__isnull=True),
            )
        ]
        constraints = [
            CheckConstraint(
                name="webhook_disabled_by_someone",
                condition=Q(disabled_at__isnull=True, disabled_by="")
                | (Q(disabled_at__isnull=False) & ~Q(disabled_by="")),
            ),
            CheckConstraint(
                name="webhook_old_secret_has_a_pepper",
                condition=Q(old_secret_ends_at__isnull=True, old_pepper_number__isnull=True)
                | Q(old_secret_ends_at__isnull=False, old_pepper_number__isnull=False),
            ),
            CheckConstraint(
                name="webhook_failing_since_its_first_failure",
                condition=Q(attempts=0, first_attempt_at__isnull=True)
                | Q(attempts__gt=0, first_attempt_at__isnull=False, failing_since__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    def clean(self) -> None:
        for name in ("url", "description"):
            if contains_key(getattr(self, name)):
                raise ValidationError({name: "This contains an API key."})

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def type_names(self) -> list[str]:
        """The chosen types and prefixes."""
        return self.types.split()

    @property
    def event_types(self) -> list[EventType]:
        """The types that it gets, with those of its prefixes."""
        return [kind for kind in EventType if any(kind in TYPES[name] for name in self.type_names)]

    @property
    def audit_description(self) -> str:
        return f"{self.host} ({self.public_id}), {self.account}"

    @property
    def audit_entries(self) -> AuditQuerySet:
        """The audit trail of the endpoint, newest entry first."""
        return AuditEntry.objects.for_object(self)

    def get_audit_values(self) -> dict[str, Any]:
        """Return the values to record. The URL, which may contain a secret, is masked; the host is not."""
        return {name: getattr(self, name) for name in ("host", *AUDITED_FIELDS)}

    def describe_state(self, now: datetime) -> tuple[str, str]:
        """Return the state and its text: disabled, suspended, failing, waiting (events wait), or active."""
        if self.disabled_at is not None:
            return "disabled", self.get_disabled_by_display()
        if self.account.suspended_at is not None:
            return "suspended", "Account suspended"
        if self.failing_since is not None:
            return "failing", f"Failing since {format_time(self.failing_since)}"
        return ("waiting", "Delivering") if self.next_attempt_at is not None else ("active", "Up to date")

    # --- The secret

    def get_secrets(self, now: datetime) -> list[bytes]:
        """Return the secrets that sign now, newest first. Empty if their pepper has been removed."""
        versions = [(self.secret_version, self.pepper_number)]
        if self.old_secret_ends_at is not None and self.old_secret_ends_at > now:
            versions.append((self.secret_version - 1, self.old_pepper_number or 0))
        peppers = settings.API_KEY_PEPPERS
        return [
            signing.derive_secret(peppers[number], self.public_id, version)
            for version, number in versions
            if number in peppers
        ]

    def reveal_secret(self, *, by: Actor) -> str:
        """Return the current secret as text, and record who saw it.

        Ask for the password first. Raises ValidationError if its pepper has been removed.
        """
        if self.pepper_number not in settings.API_KEY_PEPPERS:
            raise ValidationError("The secret is no longer available. Rotate it.")
        audit.record(by, self, Action.SECRET_REVEALED)
        return signing.format_secret(self.get_secrets(timezone.now())[0])

    def rotate_secret(self, *, by: Actor, overlap: timedelta = SECRET_OVERLAP) -> None:
        """Change the secret. Both sign until the overlap ends; without one, the old one ends at once."""
        now = timezone.now()
        with self._change(by, Action.SECRET_ROTATED) as endpoint:
            endpoint.old_pepper_number = endpoint.pepper_number if overlap else None
            endpoint.old_secret_ends_at = now + overlap if overlap else None
            endpoint.secret_version += 1
            endpoint.pepper_number = get_signing_pepper_number()

    # --- Other changes

    def lock(self, *, reject_suspended: bool = False) -> WebhookEndpoint:
        """Lock the account and the endpoint, and return its current row.

        Raises ValidationError if it was removed, or with `reject_suspended`, if the account is suspended.
        """
        self.account.lock(reject_suspended=reject_suspended)
        endpoints = WebhookEndpoint.objects.select_for_update(of=("self",)).select_related("account")
        endpoint = endpoints.filter(pk=self.pk).first()
        if endpoint is None:
            raise ValidationError("This webhook has been removed.")
        return endpoint

    @contextmanager
    def _change(
        self, by: Actor, action: str, *, reason: str = "", reject_suspended: bool = True
    ) -> Iterator[WebhookEndpoint]:
        """Change the locked row in one transaction, with an audit entry."""
        with transaction.atomic():
            endpoint = self.lock(reject_suspended=reject_suspended)
            before = endpoint.get_audit_values()
            yield endpoint
            endpoint.save()
            if before != (after := endpoint.get_audit_values()):
                audit.record(by, endpoint, action, before=before, after=after, reason=reason)
        self.refresh_from_db()

    def change(
        self,
        *,
        url: str | None = None,
        description: str | None = None,
        types: Collection[str] | None = None,
        by: Actor,
    ) -> None:
        """Change what is not None, from the next attempt on. Raises ValidationError, by argument."""
        checked_url = check_url(url) if url is not None else None
        joined_types = join_types(types) if types is not None else None
        with self._change(by, audit.Action.CHANGED) as endpoint:
            old = endpoint.url, endpoint.types
            endpoint.url = checked_url or endpoint.url
            endpoint.types = joined_types or endpoint.types
            if (endpoint.url, endpoint.types) != old:
                endpoint._retry_now()
            if description is not None:
                endpoint.description = description
            endpoint.full_clean()

    def disable(self, *, by: Actor, reason: str = "", by_staff: bool = False) -> None:
        """Stop deliveries, but keep the position, so that `enable` continues there.

        Members can't enable what staff disabled. Only the audit trail shows the reason, which staff must
        give. Raises ValidationError if it is already disabled, unless staff take it over.
        """
        if by_staff and not reason.strip():
            raise ValidationError("Say why the webhook is disabled.")
        origin = self.DisabledBy.STAFF if by_staff else self.DisabledBy.MEMBER
        with self._change(by, Action.DISABLED, reason=reason, reject_suspended=False) as endpoint:
            if endpoint.disabled_at is not None and (not by_staff or endpoint.disabled_by == origin):
                raise ValidationError("This webhook is already disabled.")
            endpoint.set_disabled(origin, timezone.now())

    def set_disabled(self, origin: DisabledBy, now: datetime) -> None:
        """Disable the locked row without saving it, and announce it."""
        was_enabled = self.disabled_at is None
        self.disabled_at, self.disabled_by, self.lease = now, origin, ""
        if was_enabled:
            self.build_event(EventType.WEBHOOK_DISABLED).save()
            self.send_mail("mail/webhook_disabled")

    def enable(self, *, by: Actor, reason: str = "", by_staff: bool = False) -> None:
        """Continue with the first event that was not delivered, as far as events are stored (D42).

        Raises ValidationError if it is not disabled, or if staff disabled it and `by_staff` is not set.
        """
        with self._change(by, Action.ENABLED, reason=reason) as endpoint:
            if endpoint.disabled_at is None:
                raise ValidationError("This webhook is not disabled.")
            if endpoint.disabled_by == self.DisabledBy.STAFF and not by_staff:
                raise ValidationError("We have disabled this webhook. Ask us to enable it.")
            endpoint.disabled_at, endpoint.disabled_by = None, ""
            endpoint.failing_since = None
            endpoint._retry_now()
            endpoint.build_event(EventType.WEBHOOK_ENABLED).save()

    def replay(self, *, after: int, by: Actor) -> None:
        """Deliver the events after this ID again. accounts/webhooks/backlog.py finds the ID for a time.

        Raises ValidationError if there are none, or if the first ones are no longer stored.
        """
        with self._change(by, Action.REPLAYED) as endpoint:
            if after < Feed.objects.get().last_pruned_id:
                raise ValidationError("Events from this time are no longer stored.")
            if after >= endpoint.position:
                raise ValidationError("Nothing has been delivered since this time.")
            endpoint.position = after
            endpoint._retry_now()

    def _retry_now(self) -> None:
        """Make the next attempt soon, as if it were the first. One in progress no longer counts."""
        self.attempts, self.first_attempt_at, self.lease = 0, None, ""
        self.next_attempt_at = timezone.now()

    def remove(self, *, by: Actor) -> None:
        """Delete the endpoint and its attempts."""
        with transaction.atomic():
            endpoint = self.lock()
            audit.record(by, endpoint, audit.Action.DELETED, before=endpoint.get_audit_values())
            endpoint.delete()

    def warn(self, now: datetime) -> None:
        """Announce, once for each of WARNING_HOURS, that there has been no success for so long."""
        failing_since = self.failing_since or now
        reached = [hours for hours in WARNING_HOURS if now - failing_since >= timedelta(hours=hours)]
        if reached:
            event = self.build_event(EventType.WEBHOOK_FAILING)
            if event.save_once(self.pk, max(reached), to_microseconds(failing_since)):
                self.send_mail("mail/webhook_failing")

    def build_event(self, kind: EventType) -> OutboxEvent:
        """Build an unsaved event about the endpoint (D57)."""
        data = {"id": self.public_id, "description": self.description, "failingSince": self.failing_since}
        return OutboxEvent.build(kind, {"webhook": data}, self.account_id)

    def send_mail(self, template: str) -> None:
        mail_managers(self.account, template, "portal:webhooks", endpoint=self)

    # --- Requested attempts

    def send_again(self, event_id: int, *, by: Actor) -> WebhookAttempt:
        """Request another attempt with this event, beside the endpoint's own order.

        It also works while the endpoint is disabled, and does not count for its health. Returns the
        attempt, which is pending until a process makes it. Raises ValidationError.
        """
        readable = Event.objects.filter(account_id__in=[PUBLIC_ACCOUNT_ID, self.account_id])
        event = readable.filter(pk=event_id).first()
        if event is None:
            raise ValidationError("This event is no longer stored.")
        return self._request(WebhookAttempt.Kind.AGAIN, event.pk, event.type, Action.SENT_AGAIN, by)

    def send_test(self, *, by: Actor) -> WebhookAttempt:
        """Request an attempt with an event `webhook.ping`, like `send_again`."""
        return self._request(WebhookAttempt.Kind.TEST, TEST_EVENT_ID, TEST_TYPE, Action.TESTED, by)

    def _request(
        self, kind: WebhookAttempt.Kind, event_id: int, event_type: str, action: Action, by: Actor
    ) -> WebhookAttempt:
        now = timezone.now()
        with transaction.atomic():
            endpoint = self.lock(reject_suspended=True)
            if endpoint.disabled_by == self.DisabledBy.STAFF:
                raise ValidationError("We have disabled this webhook. Ask us to enable it.")
            if endpoint.attempt_log.filter(due_at__isnull=False).count() >= MAX_PENDING:
                raise ValidationError("Too many requested attempts are pending. Wait until they are made.")
            attempt = WebhookAttempt.objects.create(
                endpoint=endpoint, kind=kind, event_id=event_id, event_type=event_type, due_at=now
            )
            audit.record(by, endpoint, action, after={"event": event_id} if event_id else {})
        return attempt
