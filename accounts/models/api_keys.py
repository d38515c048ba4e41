"""API keys and their life cycle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import CheckConstraint, F, Q, QuerySet
from django.utils import timezone

from accounts.actions import Action
from accounts.keys import key_format, networks, scopes
from accounts.models.events import EventType, OutboxEvent
from accounts.models.members import mail_managers
from accounts.models.plans import Account
from accounts.models.records import RateLimitState, Record, StrikeCounter
from accounts.quota import bans
from accounts.quota.limits import to_datetime, to_microseconds
from petstore import audit
from petstore.audit import Actor, get_field_values
from petstore.audit.models import AuditEntry, AuditQuerySet
from petstore.db.names import visible_name
from petstore.observability.metrics import BANS
from petstore.observability.redaction import contains_key
from petstore.text import format_time

SERVICE = Actor("the service")
MAX_LIFETIME = timedelta(days=36_525)  # Keeps later dates within the calendar.
ROTATION_OVERLAP = timedelta(hours=24)  # D19
MAX_BAN_LENGTH = timedelta(microseconds=bans.BAN_LENGTHS[-1])
EXPIRES_SOON = timedelta(days=7)
MAX_ACTIVE_KEYS, MAX_KEYS_PER_DAY = 20, 100  # Per account (D47).
MAX_LISTED_KEYS = 100  # Active keys, including those with a replacement.


def get_key_mode() -> str:
    """Return the mode of the keys that this environment issues and accepts (D20)."""
    return "test" if settings.ENVIRONMENT == "staging" else "live"


def get_signing_pepper_number() -> int:
    """Return the number of the pepper for new digests."""
    return settings.API_KEY_PEPPER_NUMBER or max(settings.API_KEY_PEPPERS)


def validate_end(value: datetime) -> None:
    if value > timezone.now() + MAX_LIFETIME:
        raise ValidationError("A key must expire within 100 years.")


def narrow_end(current: datetime | None, new: datetime) -> datetime:
    """Return the new end. Raises ValidationError if it has passed or is too late."""
    validate_end(new)
    if new <= timezone.now():
        raise ValidationError("This time has passed. Choose a later one, or revoke the key to end it now.")
    if current is not None and new > current:
        raise ValidationError(
            f"The key already expires at {current:%Y-%m-%d %H:%M:%S} UTC, which is earlier."
        )
    return new


def active_keys_q(now: datetime) -> Q:
    """Match keys that are neither revoked nor expired."""
    return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))


class ApiKeyManager(models.Manager["ApiKey"]):
    def active_since(self, account: Account, since: datetime) -> QuerySet[ApiKey]:
        """Select the keys that were active at this time or later, but none that had ended before."""
        return self.filter(pk__any_of=self.find_active_since(account, since)).select_related("account")

    def find_active_since(self, account: Account, since: datetime) -> str:
        """Find the IDs of these keys, for the lookup `any_of`.

        Reads one range of an index for each condition. Otherwise, both databases would read all keys that
        the account ever had.
        """
        ids = self.filter(account=account).order_by().values_list("pk", flat=True)
        unrevoked, revoked = ids.filter(revoked_at=None), ids.filter(revoked_at__gt=since)
        endless, unexpired = unrevoked.filter(expires_at=None), unrevoked.filter(expires_at__gt=since)
        # As one parameter, since thousands are slow, and PostgreSQL rejects more than 65,535.
        return ",".join(map(str, endless.union(unexpired, revoked, all=True)))

    def check_bans(self, account: Account, *, except_for: ApiKey | None = None) -> None:
        """Raise ValidationError if a key of the account, even a revoked one, is banned (D50)."""
        now = timezone.now()
        keys = self.active_since(account, now - MAX_BAN_LENGTH)
        if except_for is not None:
            keys = keys.exclude(pk=except_for.pk)
        states = RateLimitState.objects.filter(key__in=keys, banned_until__gt=to_microseconds(now))
        for state in states.select_related("key").order_by("-banned_until")[:1]:
            ban_end = to_datetime(state.banned_until)
            raise ValidationError(
                f"Key {state.key} of this account is banned until {ban_end:%Y-%m-%d %H:%M:%S} UTC. "
                "Wait until it ends, or have it lifted, before you issue another key."
            )

    def check_counts(self, account: Account, now: datetime, *, is_rotation: bool) -> None:
        """Raise ValidationError for too many keys (D47). Rotated keys don't use up MAX_ACTIVE_KEYS."""
        newest = self.filter(account=account).order_by("-pk").values_list("created_at", flat=True)
        if any(at > now - timedelta(days=1) for at in newest[MAX_KEYS_PER_DAY - 1 : MAX_KEYS_PER_DAY]):
            raise ValidationError(
                f"An account gets at most {MAX_KEYS_PER_DAY} new keys a day. Try again tomorrow."
            )
        active = self.active_since(account, now)
        if not is_rotation and active.filter(rotated_to=None).count() >= MAX_ACTIVE_KEYS:
            raise ValidationError(
                f"An account has at most {MAX_ACTIVE_KEYS} active keys. Revoke one first."
            )
        if active.count() >= MAX_LISTED_KEYS:  # More would be missing from the lists of members.
            raise ValidationError(
                f"An account has at most {MAX_LISTED_KEYS} keys that work, rotated ones included. "
                "Revoke one first."
            )

    def issue(
        self,
        account: Account,
        *,
        name: str = "",
        key_scopes: Collection[str] = scopes.SCOPES,
        expires_at: datetime | None = None,
        allowed_networks: Iterable[str] = (),
        by: Actor,
        rotated_from: ApiKey | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key; return it with its text, which is not stored. Raises ValidationError."""
        generated = key_format.generate(get_key_mode(), account.public_id)
        pepper_number = get_signing_pepper_number()
        key = self.model(
            account=account,
            public_id=generated.public_id,
            mode=generated.mode,
            name=name,
            digest=key_format.compute_digest(generated, settings.API_KEY_PEPPERS[pepper_number]),
            pepper_number=pepper_number,
            scopes=scopes.join_scopes(key_scopes),
            allowed_networks=networks.normalize(allowed_networks),
            expires_at=expires_at,
            rotated_from=rotated_from,
            max_expires_at=rotated_from.max_expires_at if rotated_from else None,
        )
        key.full_clean()
        with transaction.atomic():
            account.lock(reject_suspended=True)
            self.check_counts(account, timezone.now(), is_rotation=rotated_from is not None)
            self.check_bans(account, except_for=rotated_from)
            key.save()
            audit.record(by, key, Action.ISSUED, after=get_field_values(key))
            key.build_event(EventType.KEY_ISSUED).save()
            key.send_mail("mail/key_issued")
        return key, generated.text


class ApiKey(Record):
    """A credential of an account. Its text is displayed once; only a digest is stored (D16)."""

    class Mode(models.TextChoices):
        """The environment that accepts the key (D20)."""

        LIVE = "live"
        TEST = "test"

    account = models.ForeignKey(Account, models.PROTECT, related_name="keys")
    public_id = models.CharField(
        "public ID", max_length=key_format.PUBLIC_ID_LENGTH, unique=True, editable=False
    )
    mode = models.CharField(max_length=4, choices=Mode, editable=False)
    name = models.CharField(max_length=255, blank=True, help_text="What the key is for.")
    digest = models.CharField(max_length=64, editable=False)
    pepper_number = models.PositiveSmallIntegerField(editable=False)
    scopes = models.CharField(max_length=100, default=scopes.ALL_SCOPES)
    allowed_networks = models.JSONField(default=list, blank=True, validators=[networks.validate_networks])
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True, validators=[validate_end])
    # Set by `narrow`, and inherited by replacements.
    max_expires_at = models.DateTimeField("latest expiry", null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_reason = models.CharField(max_length=255, blank=True, editable=False)
    rotated_from = models.OneToOneField(
        "self", models.PROTECT, null=True, blank=True, editable=False, related_name="rotated_to"
    )
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = ApiKeyManager()

    class Meta:
        verbose_name = "API key"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["account", "-id"], name="key_of_account"),
            models.Index(fields=["account", "revoked_at", "expires_at"], name="key_of_account_by_expiry"),
            models.Index(
                fields=["expires_at"],
                name="key_by_expiry",
                condition=Q(revoked_at__isnull=True, expires_at__isnull=False),
            ),
        ]
        constraints = [
            CheckConstraint(name="key_mode_valid", condition=Q(mode__in=["live", "test"])),
            CheckConstraint(name="key_scopes_valid", condition=Q(scopes__in=scopes.COMBINATIONS)),
            CheckConstraint(
                name="key_expiry_after_creation",
                condition=Q(expires_at__isnull=True) | Q(expires_at__gt=F("created_at")),
                violation_error_message="A key must end later than it begins.",
            ),
            CheckConstraint(
                name="key_expiry_within_maximum",
                condition=Q(max_expires_at__isnull=True)
                | Q(expires_at__isnull=False, expires_at__lte=F("max_expires_at")),
            ),
            CheckConstraint(
                name="key_revocation_has_reason",
                condition=Q(revoked_at__isnull=True, revoked_reason="")
                | (Q(revoked_at__isnull=False) & ~Q(revoked_reason="")),
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    def clean(self) -> None:
        if contains_key(self.name):
            raise ValidationError({"name": "The name contains an API key."})

    @property
    def audit_description(self) -> str:
        name = f"{visible_name(self.name)} ({self.public_id})" if self.name else self.public_id
        return f"{name}, {self.account}"

    def get_state(self, now: datetime) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def describe_state(self, now: datetime) -> tuple[str, str]:
        """Return the state and its text. An active key may also be `suspended`, `banned` or `soon`."""
        state = self.get_state(now)
        if state != "active":
            return state, state.capitalize()
        if self.account.suspended_at is not None:
            return "suspended", "Account suspended"
        if ban_end := self.get_ban_end(now):
            return "banned", f"Banned until {format_time(ban_end)}"
        if self.expires_at is not None and self.expires_at <= now + EXPIRES_SOON:
            return "soon", "Expires soon"
        return "active", "Active"

    def get_ban_end(self, now: datetime) -> datetime | None:
        """Return the end of the ban, or None if the key is not banned."""
        state: RateLimitState | None = getattr(self, "rate_limit_state", None)
        return state.get_ban_end(now) if state is not None else None

    def lock(self) -> ApiKey:
        """Return the current row, locked until the end of the transaction."""
        # NO KEY does not block the first rejection of the key, which inserts its rate-limit state.
        keys = ApiKey.objects.select_for_update(of=("self",), no_key=True)
        return keys.select_related("account").get(pk=self.pk)

    def revoke(self, *, reason: str, by: Actor) -> None:
        """Revoke the key for good. Raises ValidationError without a reason, or if it is already revoked."""
        if not reason.strip():
            raise ValidationError("Say why the key is revoked.")
        if contains_key(reason):
            raise ValidationError("The reason contains an API key. Name the key by its public ID.")
        with transaction.atomic():
            key = self.lock()
            if key.revoked_at is not None:
                raise ValidationError(f"Key {self.public_id} is already revoked.")
            with audit.record_changes(by, key, Action.REVOKED, reason=reason):
                key.revoked_at, key.revoked_reason = timezone.now(), reason.strip()[:255]
                key.save(update_fields=["revoked_at", "revoked_reason"])
            key.build_event(EventType.KEY_REVOKED).save()
            key.send_mail("mail/key_revoked")
        self.refresh_from_db()

    def narrow(
        self,
        *,
        key_scopes: Collection[str] | None = None,
        expires_at: datetime | None = None,
        allowed_networks: Iterable[str] | None = None,
        reason: str = "",
        by: Actor,
    ) -> None:
        """Take away rights from the next request on (D50). None leaves a right unchanged.

        An earlier end also limits later replacements. Raises ValidationError, by argument, for an invalid
        or extended right; also if nothing changes or the key is not active.
        """
        errors = {}
        with transaction.atomic():
            key = self.lock()
            state = key.get_state(timezone.now())
            if state != "active":
                raise ValidationError(f"Key {key.public_id} is {state}.")
            before = get_field_values(key)
            rights: dict[str, tuple[str, Callable[[Any, Any], Any], Any]] = {
                "key_scopes": ("scopes", scopes.narrow, key_scopes),
                "expires_at": ("expires_at", narrow_end, expires_at),
                "allowed_networks": ("allowed_networks", networks.narrow, allowed_networks),
            }
            for argument, (field, narrow, value) in rights.items():
                try:
                    if value is not None:
                        setattr(key, field, narrow(getattr(key, field), value))
                except ValidationError as error:
                    errors[argument] = error
            if errors:
                raise ValidationError(errors)
            if key.expires_at != before["expires_at"]:
                key.max_expires_at = key.expires_at
            after = get_field_values(key)
            if after == before:
                message = (
                    "Nothing would change. Remove a scope, set an earlier expiry, or restrict the networks."
                )
                raise ValidationError(message)
            key.save(update_fields=["scopes", "expires_at", "max_expires_at", "allowed_networks"])
            audit.record(by, key, Action.NARROWED, before=before, after=after, reason=reason)
            key.build_event(EventType.KEY_NARROWED).save()
        self.refresh_from_db()

    def rotate(self, *, by: Actor, overlap: timedelta = ROTATION_OVERLAP) -> tuple[ApiKey, str]:
        """Issue a replacement with the same rights, and let this key expire after the overlap (D19).

        Returns the new key and its text. An earlier expiry is kept; a ban and strikes are inherited (D50).
        Raises ValidationError like `issue`, and if the key is not active or has already been rotated.
        """
        with transaction.atomic():
            self.account.lock(reject_suspended=True)  # As in `issue`, before the rate-limit states.
            old = self.lock()
            now = timezone.now()
            if old.get_state(now) != "active":
                raise ValidationError(f"Key {old.public_id} is {old.get_state(now)}. Issue a new one.")
            if hasattr(old, "rotated_to"):
                replacement = old.rotated_to.public_id
                raise ValidationError(f"Key {old.public_id} has already been rotated to {replacement}.")
            state = RateLimitState.lock(old.pk)
            strikes = StrikeCounter.objects.filter(key=old, generation=state.strike_generation)
            renewed_end = now + (old.expires_at - old.created_at) if old.expires_at else None
            new, key_text = ApiKey.objects.issue(
                old.account,
                name=old.name,
                key_scopes=old.scopes.split(),
                expires_at=min(filter(None, (renewed_end, old.max_expires_at)), default=None),
                allowed_networks=old.allowed_networks,
                by=by,
                rotated_from=old,
            )
            is_banned = state.get_ban_end(now) is not None
            # The replacement starts with this state and these strikes.
            for counter in strikes:
                counter.key = new
                counter.save(force_insert=True)
            state.key = new
            state.save()
            if is_banned:
                new.build_event(EventType.KEY_BANNED).save()
                audit.record(by, new, Action.BANNED, reason=f"Inherited from {old.public_id}.")
            with audit.record_changes(by, old, Action.ROTATED, reason=f"Replaced by {new.public_id}."):
                old.expires_at = min(old.expires_at or now + overlap, now + overlap)
                old.save(update_fields=["expires_at"])
            old.build_event(EventType.KEY_ROTATED).save()
        self.refresh_from_db()
        return new, key_text

    def ban(self, now: int, strikes_since: int, rejections: int) -> int:
        """Ban the key for ignoring 429 (D26), unless a ban was set or lifted since the first rejection.

        Times are microseconds since the epoch. Returns the end of the ban, which may have passed.
        """
        with transaction.atomic():
            # So that no key is issued at the same time (D50). The account may have just been deleted.
            list(Account.objects.select_for_update(no_key=True).filter(pk=self.account_id).values("pk"))
            state = RateLimitState.lock(self.pk)
            if strikes_since >= state.banned_until:
                level = bans.get_level(state.ban_level, state.banned_until, now)
                state.banned_at, state.banned_until = now, now + bans.BAN_LENGTHS[level]
                state.ban_level = min(level + 1, len(bans.BAN_LENGTHS) - 1)
                state.save(update_fields=["banned_at", "banned_until", "ban_level"])
                self.build_event(EventType.KEY_BANNED).save()
                reason = bans.describe(rejections, bans.BAN_LENGTHS[level])
                audit.record(SERVICE, self, Action.BANNED, reason=reason)
                transaction.on_commit(BANS.inc)
                # A replacement inherits a ban that began before the rotation (D50).
                replacements = ApiKey.objects.filter(rotated_from=self, created_at__gt=to_datetime(now))
                for replacement in replacements:
                    replacement.ban(now, strikes_since, rejections)
        return state.banned_until

    def unban(self, *, reason: str, by: Actor) -> None:
        """Lift the ban and lower its level. Raises ValidationError without a reason or a ban."""
        if not reason.strip():
            raise ValidationError("Say why the ban is lifted.")
        now = to_microseconds(timezone.now())
        with transaction.atomic():
            states = RateLimitState.objects.select_for_update()
            state = states.filter(key=self, banned_until__gt=now).first()
            if state is None:
                raise ValidationError(f"Key {self.public_id} is not banned.")
            state.banned_until = max(now, state.banned_at)
            state.ban_level = max(0, state.ban_level - 1)
            state.save(update_fields=["banned_until", "ban_level"])
            audit.record(by, self, Action.UNBANNED, reason=reason)
            self.build_event(EventType.KEY_UNBANNED).save()

    def build_event(self, kind: EventType) -> OutboxEvent:
        """Build an unsaved event with the public data of the key."""
        data = {"id": self.public_id, "name": self.name, "expiresAt": self.expires_at}
        return OutboxEvent.build(kind, {"key": data}, self.account_id)

    def send_mail(self, template: str) -> None:
        mail_managers(self.account, template, "portal:keys", key=self)

    @property
    def audit_entries(self) -> AuditQuerySet:
        """The audit trail of the key, newest entry first."""
        return AuditEntry.objects.for_object(self)
