"""The devices of a second factor: an authenticator app, and recovery codes with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

RECOVERY_CODES = 10
SET_UP_WITHIN = timedelta(hours=1)  # Then the page shows a new secret.
PENDING = "two-factor device to confirm"  # Session key: the id of the device whose secret was shown.


def has_second_factor(request: HttpRequest) -> bool:
    """Tell whether somebody has set up a second factor; asked once for each request."""
    known: dict[str, bool] = request.__dict__
    if "_petstore_second_factor" not in known:
        devices = TOTPDevice.objects.filter(user_id=request.user.pk, confirmed=True)
        known["_petstore_second_factor"] = devices.exists()  # Recovery codes come with an app only.
    return known["_petstore_second_factor"]


def new_recovery_codes(user: User) -> list[str]:
    """Make ten recovery codes and return them; earlier ones are void."""
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name="Recovery codes")
    codes = [StaticToken.random_token() for _ in range(RECOVERY_CODES)]
    StaticToken.objects.bulk_create(StaticToken(device=device, token=code) for code in codes)
    return codes


def remove(user: User) -> None:
    """Remove a second factor, in the caller's transaction."""
    TOTPDevice.objects.filter(user=user).delete()
    StaticDevice.objects.filter(user=user).delete()


def device_to_confirm(request: HttpRequest) -> TOTPDevice:
    """Return the device that this session is setting up; create it on the first visit and after an hour.

    The secret belongs to the session: another session of the same person, which may be a thief's who has
    the password, never learns the one that is confirmed here.
    """
    pending = TOTPDevice.objects.filter(user_id=request.user.pk, confirmed=False)
    pending.filter(created_at__lt=timezone.now() - SET_UP_WITHIN).delete()
    device: TOTPDevice | None = pending.filter(pk=request.session.get(PENDING)).first()
    if device is None:
        user = cast("User", request.user)
        device = TOTPDevice.objects.create(user=user, name="Authenticator app", confirmed=False)
        request.session[PENDING] = device.pk
    return device


@receiver(user_logged_in, dispatch_uid="pending two-factor device")
def forget_pending(request: HttpRequest | None, **kwargs: Any) -> None:
    """Show a new secret after each sign-in: signing in again keeps the data of the session."""
    if (session := getattr(request, "session", None)) is not None:
        session.pop(PENDING, None)
