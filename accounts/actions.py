"""Actions on keys, accounts, members, webhooks and staff, as the audit trail records them."""

from django.db import models

from petstore.audit.actions import register


@register()
class Action(models.TextChoices):
    ISSUED = "issued", "Issued"
    LINK_ISSUED = "link_issued", "Issued a password link"
    ROTATED = "rotated", "Rotated"
    NARROWED = "narrowed", "Restricted"
    REVOKED = "revoked", "Revoked"
    BANNED = "banned", "Banned"
    UNBANNED = "unbanned", "Ban lifted"
    SUSPENDED = "suspended", "Suspended"
    SUSPENSION_LIFTED = "suspension_lifted", "Suspension lifted"
    MEMBER_INVITED = "member_invited", "Invited a member"
    INVITATION_WITHDRAWN = "invitation_withdrawn", "Withdrew an invitation"
    MEMBER_JOINED = "member_joined", "Joined the account"
    MEMBER_CHANGED = "member_changed", "Changed a member's role"
    MEMBER_REMOVED = "member_removed", "Removed a member"
    DISABLED = "disabled", "Disabled"
    ENABLED = "enabled", "Enabled"
    SECRET_REVEALED = "secret_revealed", "Revealed the secret"
    SECRET_ROTATED = "secret_rotated", "Rotated the secret"
    REPLAYED = "replayed", "Replayed events"
    SENT_AGAIN = "sent_again", "Sent an event again"
    TESTED = "tested", "Sent a test"
    MADE_STAFF = "made_staff", "Made staff"
    REMOVED_FROM_STAFF = "removed_from_staff", "Removed from staff"
