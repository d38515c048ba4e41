"""Authenticator apps and passkeys."""

from collections.abc import Iterable

from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from django.contrib.auth.models import User
from django.db import transaction

from petstore.audit import Actor, record
from petstore.sign_in.actions import Action

SECOND_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def describe(factor: Authenticator) -> str:
    """Say what the factor is. The default names of passkeys say so themselves."""
    if factor.type == Authenticator.Type.TOTP:
        return "Authenticator app"
    return str(factor) if "passkey" in str(factor).lower() else f"Passkey: {factor}"


def has_second_factor(user: User) -> bool:
    return bool(is_mfa_enabled(user, SECOND_FACTORS))


def find_users_with_second_factor(users: Iterable[User]) -> set[int]:
    """Return the IDs of those of the users who have one."""
    factors = Authenticator.objects.filter(user__in=list(users), type__in=SECOND_FACTORS)
    return set(factors.values_list("user_id", flat=True))


def reset_two_factor(user: User, *, reason: str, by: Actor) -> None:
    """Remove apps, passkeys and recovery codes. The user can then sign in with the password alone."""
    with transaction.atomic():
        Authenticator.objects.filter(user=user).delete()
        record(by, user, Action.TWO_FACTOR_RESET, reason=reason)
