"""The second factor: a code from an authenticator app (TOTP, RFC 6238), or one of ten recovery codes.

django-otp makes, checks and throttles the codes, and takes none twice. Somebody has one app at most, and
recovery codes with it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from django import forms
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.core.exceptions import ValidationError
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone
from django_otp import login, verify_token
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from petstore.backoffice.audit import record_failed_sign_in
from petstore.backoffice.login import count_attempt, describe_wait, known_browser, reset_throttling

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


class CodeForm(forms.Form):
    """Asks for a code; counts the attempts as those to sign in are counted."""

    code = forms.CharField(
        max_length=20,
        help_text="From your authenticator app, or one of your recovery codes.",
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "one-time-code"}),
    )
    seconds_to_wait = 0
    wrong = "This code is wrong, or was used before. Wait for the next one and try again."

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request.POST if request.method == "POST" else None)
        self.request = request
        self.user = cast("User", request.user)

    def clean(self) -> dict[str, Any]:
        """Use the code up, unless something else is wrong, or too many codes were."""
        if self.errors:
            return self.cleaned_data
        code = "".join(self.cleaned_data["code"].split()).lower()
        device = self.device_for(code)
        name = self.user.get_username()
        self.seconds_to_wait = count_attempt(self.request, name)
        if device is not None and not self.seconds_to_wait and known_browser(self.request, name):
            reset_throttling(device)  # Wrong codes from elsewhere delay no known browser.
        self.seconds_to_wait = self.seconds_to_wait or locked_for(device)
        if self.seconds_to_wait:
            raise ValidationError(f"Too many attempts. Try again in {describe_wait(self.seconds_to_wait)}.")
        self.check_password()
        self.device = device and verify_token(self.user, device.persistent_id, code)
        if self.device is None:
            self.note("Wrong two-factor code.")
            raise ValidationError({"code": self.wrong})
        return self.cleaned_data

    def device_for(self, code: str) -> TOTPDevice | StaticDevice | None:
        """Return what may take the code.

        Six digits are for the app, anything else for the recovery codes: wrong ones slow down one of them
        only.
        """
        kind = TOTPDevice if len(code) == 6 and code.isdecimal() else StaticDevice
        device: TOTPDevice | StaticDevice | None = kind.objects.devices_for_user(self.user, True).first()
        return device

    def check_password(self) -> None:
        """Check the password where it is asked for, before a code is used up."""

    def note(self, failure: str) -> None:
        record_failed_sign_in(self.request, self.user, failure)

    def enter(self) -> None:
        """Note in the session that a code was given, under a new session id."""
        login(self.request, self.device)
        self.request.session.cycle_key()


class SetUpForm(CodeForm):
    """Asks for the first code of an app that is being set up."""

    wrong = "This is not the expected code. Check your phone's clock and try the next code."

    def __init__(self, request: HttpRequest, new: TOTPDevice) -> None:
        super().__init__(request)
        self.new = new
        self.fields["code"].help_text = "The six digits that the app shows now."

    def device_for(self, code: str) -> TOTPDevice:
        return self.new

    def note(self, failure: str) -> None:
        """Record nothing: somebody tries out their new app."""


class ManageForm(CodeForm):
    """Asks for password and code: an open browser alone must not be enough to turn two-factor off."""

    password = forms.CharField(
        label="Your password",
        max_length=1000,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password"}),
    )
    field_order = ("password", "code")

    def check_password(self) -> None:
        if not self.user.check_password(self.cleaned_data["password"]):
            self.note("Wrong password for two-factor.")
            raise ValidationError({"password": "This is not your password."})


def locked_for(device: TOTPDevice | StaticDevice | None) -> int:
    """Return for how many seconds the device takes no code, after wrong ones; 0 if it does."""
    locked = {} if device is None else device.verify_is_allowed()[1] or {}  # type: ignore[no-untyped-call]
    return int((locked["locked_until"] - timezone.now()).total_seconds()) + 1 if locked else 0
