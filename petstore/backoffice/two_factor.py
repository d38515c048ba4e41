"""The second factor: a code from an authenticator app (TOTP, RFC 6238), or one of ten recovery codes.

django-otp generates, verifies and throttles the codes, and accepts each only once. A user has at most one
app, with its recovery codes.
"""

from datetime import timedelta
from typing import Any, cast

from django import forms
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone
from django_otp import login, verify_token
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from petstore.backoffice.audit import record_failed_sign_in
from petstore.backoffice.login import count_attempt, describe_wait, get_known_browser_id, reset_throttling

RECOVERY_CODES = 10
SET_UP_TIMEOUT = timedelta(hours=1)  # Afterwards, the page shows a new secret.
PENDING_DEVICE = "two-factor device to confirm"  # Session key of the unconfirmed device's ID.


def has_second_factor(request: HttpRequest) -> bool:
    """Whether the user has confirmed an app. The result is cached on the request."""
    cache: dict[str, bool] = request.__dict__
    if "_petstore_second_factor" not in cache:
        devices = TOTPDevice.objects.filter(user_id=request.user.pk, confirmed=True)
        cache["_petstore_second_factor"] = devices.exists()
    return cache["_petstore_second_factor"]


def create_recovery_codes(user: User) -> list[str]:
    """Replace the recovery codes and return the new ones."""
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name="Recovery codes")
    codes = [StaticToken.random_token() for _ in range(RECOVERY_CODES)]
    StaticToken.objects.bulk_create(StaticToken(device=device, token=code) for code in codes)
    return codes


def remove_devices(user: User) -> None:
    """Remove the app and the recovery codes. Call this in a transaction."""
    TOTPDevice.objects.filter(user=user).delete()
    StaticDevice.objects.filter(user=user).delete()


def find_expired_devices() -> QuerySet[Any]:
    """Select the devices whose setup was not completed in time."""
    started_before = timezone.now() - SET_UP_TIMEOUT
    return TOTPDevice.objects.filter(confirmed=False, created_at__lt=started_before)


def get_or_create_pending_device(request: HttpRequest) -> TOTPDevice:
    """Return the device that this session is setting up.

    Its secret belongs to the session. Another session of the same user, which may be an attacker with a
    stolen password, never sees it.
    """
    pending = TOTPDevice.objects.filter(user_id=request.user.pk, confirmed=False)
    find_expired_devices().filter(user_id=request.user.pk).delete()
    device: TOTPDevice | None = pending.filter(pk=request.session.get(PENDING_DEVICE)).first()
    if device is None:
        user = cast("User", request.user)
        device = TOTPDevice.objects.create(user=user, name="Authenticator app", confirmed=False)
        request.session[PENDING_DEVICE] = device.pk
    return device


@receiver(user_logged_in, dispatch_uid="pending two-factor device")
def discard_pending_device(request: HttpRequest | None, **kwargs: Any) -> None:
    """Show a new secret after each sign-in, which would otherwise keep the data of the session."""
    session = getattr(request, "session", None)
    if session is not None:
        session.pop(PENDING_DEVICE, None)


class CodeForm(forms.Form):
    """Asks for a code. Attempts count towards the limits of the sign-in."""

    code = forms.CharField(
        max_length=20,
        help_text="Enter the code that your app shows, or one of your recovery codes.",
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "one-time-code"}),
    )
    seconds_to_wait = 0
    records_failures = True
    error = "This code is wrong or has been used before. Wait for the next code and try again."

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request.POST if request.method == "POST" else None)
        self.request = request
        self.user = cast("User", request.user)

    def clean(self) -> dict[str, Any]:
        """Check the rate limit and the password first, because verifying a code uses it up."""
        if self.errors:
            return self.cleaned_data
        code = "".join(self.cleaned_data["code"].split()).lower()
        device = self.get_device(code)
        username = self.user.get_username()
        self.seconds_to_wait = count_attempt(self.request, username)
        if device is not None and not self.seconds_to_wait:
            if get_known_browser_id(self.request, username):
                reset_throttling(device)  # Wrong codes from elsewhere must not delay a known browser.
            _, lockout = device.verify_is_allowed()  # type: ignore[no-untyped-call]
            if lockout:  # A delay after wrong codes.
                self.seconds_to_wait = int((lockout["locked_until"] - timezone.now()).total_seconds()) + 1
        if self.seconds_to_wait:
            raise ValidationError(f"Too many attempts. Try again in {describe_wait(self.seconds_to_wait)}.")
        self.check_password()
        self.device = device and verify_token(self.user, device.persistent_id, code)
        if self.device is None:
            self.record_failure("Wrong two-factor code.")
            raise ValidationError({"code": self.error})
        return self.cleaned_data

    def get_device(self, code: str) -> TOTPDevice | StaticDevice | None:
        """Return the app for six digits, else the recovery codes. Each has its own throttling."""
        model = TOTPDevice if len(code) == 6 and code.isdecimal() else StaticDevice
        device: TOTPDevice | StaticDevice | None = model.objects.devices_for_user(self.user, True).first()
        return device

    def check_password(self) -> None:
        """Check the password, in forms that ask for one."""

    def record_failure(self, reason: str) -> None:
        if self.records_failures:
            record_failed_sign_in(self.request, self.user, reason)

    def mark_verified(self) -> None:
        """Mark the session as verified, and change its session key."""
        login(self.request, self.device)
        self.request.session.cycle_key()


class SetUpForm(CodeForm):
    records_failures = False  # The user is already signed in, and only tries a new app.
    error = "This code is wrong. Check the clock of your phone and try the next code."

    def __init__(self, request: HttpRequest, pending_device: TOTPDevice) -> None:
        super().__init__(request)
        self.pending_device = pending_device
        self.fields["code"].help_text = "Enter the six digits that the app shows."

    def get_device(self, code: str) -> TOTPDevice:
        return self.pending_device


class ManageForm(CodeForm):
    """Asks for password and code, so that two-factor can't be turned off in an unattended browser."""

    password = forms.CharField(
        label="Your password",
        max_length=1000,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password"}),
    )
    field_order = ("password", "code")

    def check_password(self) -> None:
        if not self.user.check_password(self.cleaned_data["password"]):
            self.record_failure("Wrong password for two-factor.")
            raise ValidationError({"password": "Wrong password."})
