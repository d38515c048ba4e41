"""Authenticator apps and passkeys."""

from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from django.contrib.auth.models import User
from django.db import transaction

from petstore.audit import Actor, record
from petstore.sign_in.actions import Action

SECOND_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def has_second_factor(user: User) -> bool:
    return bool(is_mfa_enabled(user, SECOND_FACTORS))


def reset_two_factor(user: User, *, reason: str, by: Actor) -> None:
    """Remove apps, passkeys and recovery codes. The user can then sign in with the password alone."""
    with transaction.atomic():
        Authenticator.objects.filter(user=user).delete()
        record(by, user, Action.TWO_FACTOR_RESET, reason=reason)
