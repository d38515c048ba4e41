"""The second factor: a code from an authenticator app (TOTP, RFC 6238), or one of ten recovery codes.

django-otp makes, checks and throttles the codes, and takes none twice. The pages here ask for a code after
the password, set an app up, and turn it off. `PetstoreAdminSite.has_permission` lets nobody in without a
code who has set one up.
"""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import segno
from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django_otp import login, verify_token
from django_otp.models import ThrottlingMixin
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from petstore.backoffice.audit import Action, record
from petstore.backoffice.login import count_attempt, in_words

if TYPE_CHECKING:
    from petstore.backoffice.site import PetstoreAdminSite

RECOVERY_CODES = 10
SET_UP_WITHIN = timedelta(hours=1)  # Then the page shows a new secret.


def has_second_factor(request: HttpRequest) -> bool:
    """Tell whether somebody has set up a second factor; asked once for each request."""
    known: dict[str, bool] = request.__dict__
    if "_petstore_second_factor" not in known:
        devices = TOTPDevice.objects.filter(user_id=request.user.pk, confirmed=True)
        known["_petstore_second_factor"] = devices.exists()  # Recovery codes come with an app only.
    return known["_petstore_second_factor"]


# --- Codes ---------------------------------------------------------------------------------------


def new_recovery_codes(user: User) -> list[str]:
    """Make ten recovery codes and return them; earlier ones are void."""
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name="Recovery codes")
    codes = [StaticToken.random_token() for _ in range(RECOVERY_CODES)]
    StaticToken.objects.bulk_create(StaticToken(device=device, token=code) for code in codes)
    return codes


def remove(user: User) -> None:
    """Remove the app and the recovery codes."""
    with transaction.atomic():
        TOTPDevice.objects.filter(user=user).delete()
        StaticDevice.objects.filter(user=user).delete()


def devices_for_code(user: User, code: str) -> list[TOTPDevice | StaticDevice]:
    """Return the devices that a code is for.

    Six digits are for the app, anything else for the recovery codes: wrong ones slow down one of them only.
    """
    kind = TOTPDevice if len(code) == 6 and code.isdecimal() else StaticDevice
    return list(kind.objects.devices_for_user(user, confirmed=True))


def matching_device(user: User, code: str) -> TOTPDevice | StaticDevice | None:
    """Return the device that takes the code, which is then used up."""
    matching = (d for d in devices_for_code(user, code) if verify_token(user, d.persistent_id, code))
    return next(matching, None)


def seconds_locked(devices: Iterable[ThrottlingMixin]) -> int:
    """Return for how long none of the devices takes a code, after wrong ones; 0 if one does."""
    now, waits = timezone.now(), []
    for device in devices:
        allowed, why = device.verify_is_allowed()
        waits.append(0 if allowed or not why else int((why["locked_until"] - now).total_seconds()) + 1)
    return min(waits, default=0)


# --- Forms ---------------------------------------------------------------------------------------


class CodeForm(forms.Form):
    """Asks for a code; counts the attempts as those to sign in are counted."""

    code = forms.CharField(
        max_length=20,
        help_text="From your authenticator app, or one of your recovery codes.",
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "one-time-code"}),
    )
    seconds_to_wait = 0
    device: TOTPDevice | StaticDevice | None = None

    def __init__(self, request: HttpRequest, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.request = request
        self.user = cast("User", request.user)

    def clean(self) -> dict[str, Any]:
        """Check the code, unless there were too many wrong ones."""
        if self.errors:
            return self.cleaned_data
        code = "".join(self.cleaned_data["code"].split()).lower()
        self.seconds_to_wait = count_attempt(self.request, self.user.get_username()) or seconds_locked(
            self.devices(code)
        )
        if self.seconds_to_wait:
            wait = in_words(self.seconds_to_wait)
            raise ValidationError(f"Too many attempts. Try again in {wait}.")
        self.check_rest()
        self.check_code(code)
        return self.cleaned_data

    def devices(self, code: str) -> Sequence[ThrottlingMixin]:
        """Return the devices that may take the code."""
        return devices_for_code(self.user, code)

    def check_rest(self) -> None:
        """Check what else is asked, before a code is used up."""

    def check_code(self, code: str) -> None:
        """Use the code up; refuse one that is wrong or was used before."""
        self.device = matching_device(self.user, code)
        if self.device is None:
            record(self.request, self.user, Action.SIGN_IN_FAILED, reason="Wrong two-factor code.")
            raise ValidationError(
                {"code": "This code is wrong, or was used before. Wait for the next one and try again."}
            )


class SetUpForm(CodeForm):
    """Asks for the first code of an app that is being set up."""

    def __init__(self, request: HttpRequest, device: TOTPDevice, *args: Any, **options: Any) -> None:
        super().__init__(request, *args, **options)
        self.new = device
        self.fields["code"].help_text = "The six digits that the app shows now."

    def devices(self, code: str) -> Sequence[ThrottlingMixin]:
        """Return the app that is being set up."""
        return [self.new]

    def check_code(self, code: str) -> None:
        """Check that the app makes the codes that we expect."""
        with transaction.atomic():
            device = TOTPDevice.objects.select_for_update().filter(pk=self.new.pk, confirmed=False).first()
            if device is not None and code.isdecimal() and device.verify_token(code):
                self.device = device
                return
        raise ValidationError(
            {"code": "This is not the code that we expect. Check your phone's clock and try the next code."}
        )


class ManageForm(CodeForm):
    """Asks for password and code: an open browser alone must not be enough to turn two-factor off."""

    password = forms.CharField(
        label="Your password",
        max_length=1000,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password"}),
    )
    field_order = ("password", "code")

    def check_rest(self) -> None:
        """Check the password."""
        if not self.user.check_password(self.cleaned_data["password"]):
            record(self.request, self.user, Action.SIGN_IN_FAILED, reason="Wrong password for two-factor.")
            raise ValidationError({"password": "This is not your password."})


# --- Pages ---------------------------------------------------------------------------------------


def page(
    site: PetstoreAdminSite, request: HttpRequest, name: str, title: str, **context: Any
) -> TemplateResponse:
    """Return one of the pages; too many attempts: 429, and when to come back."""
    shared = {**site.each_context(request), "title": title, "next": site.next_page(request)}
    response = TemplateResponse(request, f"admin/two_factor/{name}.html", shared | context)
    form = context.get("form")
    if isinstance(form, CodeForm) and form.seconds_to_wait:
        response.status_code = 429
        response["Retry-After"] = str(form.seconds_to_wait)
    return response


def ask_code(site: PetstoreAdminSite, request: HttpRequest) -> HttpResponse:
    """Ask for the code, after the password."""
    if site.has_permission(request) or not has_second_factor(request):
        return HttpResponseRedirect(site.next_page(request))
    form = CodeForm(request, request.POST if request.method == "POST" else None)
    form.fields["code"].widget.attrs["autofocus"] = ""  # Elsewhere there is something to read first.
    if form.is_valid():
        enter(request, form)
        record(request, form.user, Action.SIGNED_IN)
        return HttpResponseRedirect(site.next_page(request))
    return page(site, request, "code", "Enter your code", form=form)


def enter(request: HttpRequest, form: CodeForm) -> None:
    """Note in the session that a code was given, under a new session id."""
    login(request, form.device)
    request.session.cycle_key()


def overview(site: PetstoreAdminSite, request: HttpRequest) -> HttpResponse:
    """Show the second factor, or set one up; who has one must have given a code."""
    if not has_second_factor(request):
        return set_up(site, request)
    if not site.has_permission(request):
        return HttpResponseRedirect(site.with_next(request, "admin:two_factor_code"))
    return manage(site, request)


def set_up(site: PetstoreAdminSite, request: HttpRequest) -> HttpResponse:
    """Show a secret to put into an app, and take it once a code proves that it is there."""
    user = cast("User", request.user)
    device = device_to_confirm(user)
    form = SetUpForm(request, device, request.POST if request.method == "POST" else None)
    if not form.is_valid():
        secret = b32encode(device.bin_key).decode()
        return page(
            site, request, "set_up", "Set up two-factor sign-in",
            form=form,
            qr=segno.make(device.config_url, error="m").svg_data_uri(scale=5, border=3, light="white"),
            secret=" ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
            may_leave=site.has_permission(request),
        )  # fmt: skip
    with transaction.atomic():
        TOTPDevice.objects.filter(user=user).exclude(pk=device.pk).delete()
        TOTPDevice.objects.filter(pk=device.pk).update(confirmed=True)
        codes = new_recovery_codes(user)
        record(request, user, Action.TWO_FACTOR_ON)
    enter(request, form)
    return show_codes(site, request, codes)


def device_to_confirm(user: User) -> TOTPDevice:
    """Return what is being set up; begun long ago, it is begun anew."""
    started = TOTPDevice.objects.filter(user=user, confirmed=False)
    started.filter(created_at__lt=timezone.now() - SET_UP_WITHIN).delete()
    device: TOTPDevice | None = started.order_by("id").first()
    return device or TOTPDevice.objects.create(user=user, name="Authenticator app", confirmed=False)


def show_codes(site: PetstoreAdminSite, request: HttpRequest, codes: list[str]) -> HttpResponse:
    """Show new recovery codes: the only time."""
    return page(site, request, "codes", "Keep your recovery codes", codes=codes)


def manage(site: PetstoreAdminSite, request: HttpRequest) -> HttpResponse:
    """Show what is set up; make new recovery codes or turn it all off, given password and code."""
    user = cast("User", request.user)
    form = ManageForm(request, request.POST if request.method == "POST" else None)
    if form.is_valid():
        if "renew" in request.POST:
            with transaction.atomic():
                codes = new_recovery_codes(user)
                record(request, user, Action.RECOVERY_CODES)
            return show_codes(site, request, codes)
        with transaction.atomic():
            remove(user)
            record(request, user, Action.TWO_FACTOR_OFF)
        messages.success(request, "Two-factor sign-in is off. The codes of your app are of no use now.")
        return HttpResponseRedirect(reverse("admin:index"))
    return page(
        site, request, "manage", "Two-factor sign-in",
        form=form,
        device=TOTPDevice.objects.filter(user=user, confirmed=True).first(),
        codes_left=StaticToken.objects.filter(device__user=user).count(),
    )  # fmt: skip
