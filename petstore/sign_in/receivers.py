"""Records sign-ins and changes of credentials. A new second factor ends other sessions."""

from typing import Any

from allauth.account import signals as account_signals
from allauth.account.internal.flows.login import (
    AUTHENTICATION_METHODS_SESSION_KEY,
    get_authentication_records,
)
from allauth.account.models import EmailAddress
from allauth.mfa import signals as mfa_signals
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models.signals import post_save
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse

from petstore.audit import Actor, Values, record, record_password_change
from petstore.audit.models import FailedSignIn
from petstore.backoffice.sessions import end_oldest_sessions
from petstore.observability import logs
from petstore.sign_in.actions import Action
from petstore.sign_in.backends import find_user
from petstore.sign_in.known_browsers import remember_browser
from petstore.sign_in.second_factors import SECOND_FACTORS, describe, has_second_factor

MAX_AUTHENTICATION_RECORDS = 20  # Per session. Only the latest counts.


def record_if_staff(request: HttpRequest | None, user: User | None, action: Action) -> None:
    """Record an action of staff. Customers' sign-ins appear only in the list of their sessions."""
    if user is not None and user.is_staff:
        record(Actor.from_request(request, user), user, action)


@receiver(account_signals.authentication_step_completed, dispatch_uid="audit of passwords")
def record_password(request: HttpRequest, user: User, method: str, **kwargs: Any) -> None:
    if method == "password" and not kwargs.get("reauthenticated") and has_second_factor(user):
        record_if_staff(request, user, Action.PASSWORD_ACCEPTED)


@receiver(account_signals.authentication_step_completed, dispatch_uid="old authentication records")
def drop_old_records(request: HttpRequest, user: User, **kwargs: Any) -> None:
    """Keep sessions small, since a passkey may confirm any number of times."""
    records = get_authentication_records(request, user)[-MAX_AUTHENTICATION_RECORDS:]
    request.session[AUTHENTICATION_METHODS_SESSION_KEY] = records


@receiver(user_logged_in, dispatch_uid="audit of sign-ins")
def record_sign_in(request: HttpRequest | None, user: User, **kwargs: Any) -> None:
    record_if_staff(request, user, Action.SIGNED_IN)


@receiver(account_signals.user_logged_in, dispatch_uid="known browsers")
def remember_signed_in_browser(response: HttpResponse, user: User, **kwargs: Any) -> None:
    """Remember the browser, and end the oldest sessions: each sign-in checks all of a user's sessions."""
    remember_browser(response, user)
    end_oldest_sessions(user)


@receiver(user_logged_out, dispatch_uid="audit of sign-outs")
def record_sign_out(request: HttpRequest | None, user: User | None, **kwargs: Any) -> None:
    record_if_staff(request, user, Action.SIGNED_OUT)


@receiver(user_login_failed, dispatch_uid="failed sign-ins")
def handle_failed_login(credentials: Values, request: HttpRequest | None = None, **kwargs: Any) -> None:
    # Users sometimes type their password into the name field, so unknown names are not stored.
    user = find_user(str(credentials.get("username") or credentials.get("email") or ""))
    reason = "Wrong password or no access." if user else "Unknown name."
    record_failed_sign_in(request, user, reason)


@receiver(mfa_signals.authentication_failed, dispatch_uid="failed codes")
def handle_failed_code(request: HttpRequest, user: User, **kwargs: Any) -> None:
    record_failed_sign_in(request, user, "Wrong two-factor code.")


def record_failed_sign_in(request: HttpRequest | None, user: User | None, reason: str) -> None:
    FailedSignIn.objects.create(
        user_id=user.pk if user is not None else None,
        username=user.get_username() if user is not None else "",
        reason=reason,
        address=Actor.from_request(request).address,
        request_id=logs.request_id.get(""),
    )


@receiver(mfa_signals.authenticator_added, dispatch_uid="audit of added factors")
def handle_added_factor(
    request: HttpRequest, user: User, authenticator: Authenticator, **kwargs: Any
) -> None:
    """End other sessions: someone with a stolen password may have started them without the new factor."""
    if authenticator.type in SECOND_FACTORS:
        others = UserSession.objects.filter(user=user).exclude(session_key=request.session.session_key)
        for session in others:
            session.end()
        record(Actor.from_request(request), user, Action.TWO_FACTOR_ON, reason=describe(authenticator))
    if authenticator.type == Authenticator.Type.TOTP:
        TOTP(authenticator).validate_code(request.POST.get("code", ""))  # Uses it up.


@receiver(mfa_signals.authenticator_removed, dispatch_uid="audit of removed factors")
def handle_removed_factor(
    request: HttpRequest, user: User, authenticator: Authenticator, **kwargs: Any
) -> None:
    if authenticator.type in SECOND_FACTORS:
        record(Actor.from_request(request), user, Action.TWO_FACTOR_OFF, reason=describe(authenticator))


@receiver(mfa_signals.authenticator_reset, dispatch_uid="audit of recovery codes")
def handle_new_recovery_codes(request: HttpRequest, user: User, **kwargs: Any) -> None:
    record(Actor.from_request(request), user, Action.RECOVERY_CODES)


@receiver(account_signals.password_changed, dispatch_uid="audit of password changes")
def handle_changed_password(request: HttpRequest, user: User, **kwargs: Any) -> None:
    record_password_change(request, user, "Changed their own password.")


@receiver(account_signals.password_reset, dispatch_uid="audit of password resets")
def handle_reset_password(request: HttpRequest, user: User, **kwargs: Any) -> None:
    reason = "Used a one-time link." if user.is_staff else "Used a link from an email."
    record_password_change(request, user, reason)


@receiver(post_save, sender=User, dispatch_uid="unconfirmed addresses")
def withdraw_confirmations(instance: User, *, created: bool, **kwargs: Any) -> None:
    """Invalidate links that confirm a new address, which a thief of the old password may have entered."""
    # Django sets this attribute for each new password, also one that a command or a one-time link sets.
    if getattr(instance, "_password", None) is not None and not created:
        EmailAddress.objects.filter(user=instance, verified=False).delete()
