"""Members of accounts, and the invitations with which they join (D46, D47).

All changes lock the account. Members keep the public ID of their invitation.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Any

from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.signing import BASE62_ALPHABET
from django.db import models, transaction
from django.db.models import CheckConstraint, Exists, Index, OuterRef, Q, QuerySet, UniqueConstraint
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import get_random_string

from accounts.actions import Action
from accounts.models.events import EventType, OutboxEvent
from accounts.models.plans import Account, PlanCode
from accounts.models.records import Record
from petstore import audit
from petstore.api.link_header import get_page_url
from petstore.audit import Actor
from petstore.mail.email_queue import check_address, send_mail

MEMBER_ID_LENGTH = 8
INVITATION_LIFETIME = timedelta(days=7)
INVITATION_RETENTION = timedelta(days=30)  # Invitations contain addresses.
MAX_OPEN_INVITATIONS, MAX_INVITATIONS_PER_DAY = 20, 50
MAX_MEMBERS = MAX_MEMBERSHIPS = 100  # Of an account and of a user. Pages list all of them.


class Role(models.TextChoices):
    """What a member may do, most powerful first. Staff have roles of their own, so labels say "account"."""

    OWNER = "owner", "Account owner"
    DEVELOPER = "developer", "Account developer"
    READER = "reader", "Account reader"

    def exceeds(self, other: str) -> bool:
        return Role.values.index(self) < Role.values.index(other)


def new_member_id() -> str:
    return get_random_string(MEMBER_ID_LENGTH, BASE62_ALPHABET)


def compute_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class AccountRole(Record):
    """A role in an account: that of a member, or one that an invitation offers."""

    account = models.ForeignKey(Account, models.CASCADE, related_name="%(class)ss", db_index=False)
    public_id = models.CharField(max_length=MEMBER_ID_LENGTH, unique=True, default=new_member_id)
    role = models.CharField(max_length=10, choices=Role)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        abstract = True
        ordering = ["pk"]
        default_permissions = ()  # Access requires the permissions for accounts.
        constraints = [CheckConstraint(name="%(class)s_role_valid", condition=Q(role__in=Role.values))]

    def record(self, action: Action, by: Actor, event_type: EventType | None = None, **values: Any) -> None:
        """Record an action in the account's audit trail, and add any event, which has no personal data."""
        audit.record(by, self.account, action, **values)
        if event_type is not None:
            data = {"member": {"id": self.public_id, "role": self.role}}
            OutboxEvent.build(event_type, data, self.account_id).save()


class Membership(AccountRole):
    """A user's role in an account."""

    # Protected, so that deleting a user can't leave an account without an owner.
    user = models.ForeignKey(User, models.PROTECT, related_name="memberships")

    class Meta(AccountRole.Meta):
        verbose_name = "account member"
        constraints = [
            *AccountRole.Meta.constraints,
            UniqueConstraint(name="unique_membership", fields=["account", "user"]),
        ]

    def __str__(self) -> str:
        return f"{self.user}, {self.get_role_display()} of {self.account}"

    def change_role(self, role: str, *, by: Actor, reason: str = "") -> None:
        """Change the role; in a suspended account, only to one with less power. Raises ValidationError."""
        with transaction.atomic():
            member = self.lock(reject_suspended=Role(role).exceeds(self.role))
            if member.role == role:
                raise ValidationError(f"{member.user} is already {member.get_role_display()}.")
            before, after = ({"member": str(member.user), "role": value} for value in (member.role, role))
            member.check_other_owner()
            member.role = role
            member.save(update_fields=["role"])
            member.account.invitations.close_void()
            member.record(Action.MEMBER_CHANGED, by, before=before, after=after, reason=reason)
        self.refresh_from_db()

    def remove(self, *, by: Actor, reason: str = "", keep_owner: bool = False) -> None:
        """Remove the member. Raises ValidationError for the last owner of an account with other members.

        With `keep_owner`, this also applies to an account without other members.
        """
        with transaction.atomic():
            member = self.lock()
            if keep_owner or member.account.memberships.exclude(pk=member.pk).exists():
                member.check_other_owner()
            before = {"member": str(member.user), "role": member.role}
            after = dict.fromkeys(before)
            values: Any = {"before": before, "after": after, "reason": reason}
            member.record(Action.MEMBER_REMOVED, by, EventType.MEMBER_REMOVED, **values)
            member.delete()
            member.account.invitations.close_void()

    def lock(self, *, reject_suspended: bool = False) -> Membership:
        """Lock the account, and return the current row. Raises ValidationError if it was removed."""
        self.account.lock(reject_suspended=reject_suspended)
        member = Membership.objects.select_related("account", "user").filter(pk=self.pk).first()
        if member is None:
            raise ValidationError("This person is no longer a member of the account.")
        return member

    def check_other_owner(self) -> None:
        """Raise ValidationError for an owner if there is no other one who may sign in."""
        owners = self.account.memberships.filter(role=Role.OWNER, user__is_active=True)
        if self.role == Role.OWNER and not owners.exclude(pk=self.pk).exists():
            raise ValidationError(
                f"{self.user} is the only owner of {self.account}. Make another member an owner first."
            )


def mail_managers(account: Account, template: str, page: str, **context: Any) -> None:
    """Mail the active members who may change keys and webhooks, at their confirmed addresses.

    The mail links the page with this URL name.
    """
    members = account.memberships.exclude(role=Role.READER).filter(user__is_active=True)
    addresses = EmailAddress.objects.filter(verified=True, user__in=members.values("user"))
    url = get_page_url(reverse(page, args=[account.public_id]))
    send_mail(
        template, addresses.values_list("email", flat=True), context | {"account": account, "url": url}
    )


def open_account(name: str, owner: User, *, by: Actor) -> Account:
    """Create an account on the plan Free with its owner (D47). Raises ValidationError."""
    with transaction.atomic():
        account = Account(name=name)
        account.assign(PlanCode.FREE)
        audit.record(by, account, audit.Action.ADDED, after=audit.get_field_values(account))
        member = Membership.objects.create(account=account, user=owner, role=Role.OWNER)
        after = {"member": str(owner), "role": member.role}
        member.record(Action.MEMBER_JOINED, by, EventType.MEMBER_JOINED, after=after)
    return account


class InvitationQuerySet(QuerySet["Invitation"]):
    def open(self) -> InvitationQuerySet:
        """Select unexpired invitations whose author could still create them, or which a command created.

        Otherwise, former owners and staff could return with their own link.
        """
        owners = Membership.objects.filter(
            account=OuterRef("account"), user=OuterRef("invited_by"), role=Role.OWNER, user__is_active=True
        )
        staff = User.objects.with_perm("accounts.change_account").filter(is_staff=True)
        by_author = Q(invited_by=None) | Exists(owners) | Exists(staff.filter(pk=OuterRef("invited_by")))
        return self.filter(by_author, closed_at=None, expires_at__gt=timezone.now())

    def close_void(self) -> None:
        """Close those that aren't open, so that they stay void if their author returns."""
        self.filter(closed_at=None).exclude(pk__in=self.open()).update(closed_at=timezone.now())

    def find(self, token: str) -> Invitation | None:
        """Find the open invitation of a link."""
        return self.open().select_related("account").filter(digest=compute_digest(token)).first()

    def invite(self, account: Account, *, email: str, role: str, by: Actor) -> tuple[Invitation, str]:
        """Create an invitation; return it with its link, which is not stored. Raises ValidationError."""
        now, token = timezone.now(), secrets.token_urlsafe(32)
        with transaction.atomic():
            invitation = self.model(
                account=account.lock(reject_suspended=True), email=email.strip().lower(), role=role,
                digest=compute_digest(token), invited_by=by.user_id,
                created_at=now, expires_at=now + INVITATION_LIFETIME,
            )  # fmt: skip
            invitation.full_clean()
            check_address(invitation.email)
            invitation.check_others()
            account.invitations.filter(created_at__lt=now - INVITATION_RETENTION).delete()
            invitation.save()
            after = {"invitation": invitation.public_id, "role": role}
            invitation.record(Action.MEMBER_INVITED, by, EventType.MEMBER_INVITED, after=after)
            link = get_page_url(reverse("portal:join", args=[token]))
            send_mail("mail/invitation", [invitation.email], {"invitation": invitation, "url": link})
        return invitation, link


class Invitation(AccountRole):
    """An offer to become a member, with a link that works once."""

    email = models.EmailField()
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.BigIntegerField(null=True, blank=True, help_text="The ID of the user, if any.")
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True, help_text="When it was accepted or withdrawn.")

    objects = InvitationQuerySet.as_manager()

    class Meta(AccountRole.Meta):
        indexes = [Index(fields=["account", "created_at"], name="invitation_of_account")]

    def __str__(self) -> str:
        return f"Invitation {self.public_id} to {self.account}"

    def check_others(self) -> None:
        """Raise ValidationError for too many, a second one to an address, or one before an owner's."""
        sent = self.account.invitations.filter(created_at__gt=self.created_at - timedelta(days=1))
        still_open = self.account.invitations.open()
        has_owner = self.has_owner() or still_open.filter(role=Role.OWNER).exists()
        if still_open.filter(email=self.email).exists():
            message = "This address already has an invitation. Withdraw it to create a new one."
            raise ValidationError({"email": message})
        errors = {
            f"An account can have at most {MAX_OPEN_INVITATIONS} open invitations. Withdraw one first.": (
                still_open.count() >= MAX_OPEN_INVITATIONS
            ),
            f"At most {MAX_INVITATIONS_PER_DAY} invitations can be created a day. Try again tomorrow.": (
                sent.count() >= MAX_INVITATIONS_PER_DAY
            ),
            f"{self.account} has no owner. Invite one first.": self.role != Role.OWNER and not has_owner,
        }
        for message, applies in errors.items():
            if applies:
                raise ValidationError(message)

    def has_owner(self) -> bool:
        return self.account.memberships.filter(role=Role.OWNER).exists()

    def accept(self, user: User, *, by: Actor) -> Membership:
        """Make the user a member, and spend the link. Raises ValidationError."""
        with transaction.atomic():
            invitation = self.close(reject_suspended=True)
            # Their invitations to other accounts wait, too, because memberships are counted below.
            list(User.objects.select_for_update(no_key=True).filter(pk=user.pk))
            values = {"account": invitation.account, "user": user}
            if Membership.objects.filter(**values).exists():
                raise ValidationError(f"You are already a member of {invitation.account}.")
            if invitation.role != Role.OWNER and not invitation.has_owner():
                raise ValidationError(f"An owner of {invitation.account} has to join first.")
            if invitation.account.memberships.count() >= MAX_MEMBERS:
                raise ValidationError(f"{invitation.account} has {MAX_MEMBERS} members. Remove one first.")
            if user.memberships.count() >= MAX_MEMBERSHIPS:
                raise ValidationError(f"You are a member of {MAX_MEMBERSHIPS} accounts. Leave one first.")
            public_id, role = invitation.public_id, invitation.role
            member = Membership.objects.create(**values, public_id=public_id, role=role)
            after = {"member": str(user), "role": role}
            member.record(Action.MEMBER_JOINED, by, EventType.MEMBER_JOINED, after=after)
        return member

    def withdraw(self, *, by: Actor, reason: str = "") -> None:
        """Make the link invalid. Raises ValidationError if it already is."""
        with transaction.atomic():
            invitation = self.close()
            before = {"invitation": invitation.public_id}
            after = dict.fromkeys(before)
            invitation.record(Action.INVITATION_WITHDRAWN, by, before=before, after=after, reason=reason)

    def close(self, *, reject_suspended: bool = False) -> Invitation:
        """Lock the account; close and return the invitation. Raises ValidationError unless it is open."""
        self.account.lock(reject_suspended=reject_suspended)
        invitation = Invitation.objects.open().select_related("account").filter(pk=self.pk).first()
        if invitation is None:
            raise ValidationError("This invitation is no longer valid.")
        invitation.closed_at = timezone.now()
        invitation.save(update_fields=["closed_at"])
        return invitation
