"""The second factor: a code from an authenticator app (TOTP, RFC 6238), or one of ten recovery codes.

django-otp makes, checks and throttles the codes, and takes none twice. The pages here ask for a code after
the password, set an app up, and turn it off. Somebody has one app at most, and recovery codes with it.
"""

from __future__ import annotations

from base64 import b32encode
from typing import Any, cast

import segno
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django_otp import login, verify_token
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.sites import UnfoldAdminSite
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from petstore.backoffice.audit import Action, Actor, record, record_failed_sign_in
from petstore.backoffice.input_guard import View, guarded
from petstore.backoffice.known_browsers import known_browser, remember_browser
from petstore.backoffice.login import count_attempt, forgive, in_words
from petstore.backoffice.otp_devices import (
    device_to_confirm,
    has_second_factor,
    new_recovery_codes,
    remove,
)


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
            forgive(device)  # Wrong codes from elsewhere delay no known browser.
        self.seconds_to_wait = self.seconds_to_wait or locked_for(device)
        if self.seconds_to_wait:
            raise ValidationError(f"Too many attempts. Try again in {in_words(self.seconds_to_wait)}.")
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


class TwoFactorSite(UnfoldAdminSite):
    """A site that lets nobody in without a code who has set one up, and has the pages for it."""

    def has_permission(self, request: HttpRequest) -> bool:
        """Let in staff who proved all that they must: the password, and a code if there is a second factor.

        This is the one place that decides it. Every page stands behind it.
        """
        return super().has_permission(request) and not self.lacks(request)

    def lacks(self, request: HttpRequest) -> str:
        """Return the page that a member of staff who gave the password must visit first, or nothing."""
        if getattr(request.user, "otp_device", None) is not None:
            return ""
        if has_second_factor(request):
            return "admin:two_factor_code"
        return "admin:two_factor" if settings.STAFF_TWO_FACTOR == "required" else ""

    def half_signed_in(self, request: HttpRequest) -> bool:
        """Tell whether somebody is staff, whatever they still must prove."""
        return super().has_permission(request)

    def get_urls(self) -> list[Any]:
        """Add the pages about the second factor, and a sign-out for who has given the password only."""

        def half(view: View) -> View:
            def half_view(request: HttpRequest) -> HttpResponse:
                return view(request) if self.half_signed_in(request) else redirect("admin:login")

            return guarded(never_cache(half_view))

        return [
            path("logout/", guarded(never_cache(self.logout)), name="logout"),
            path("two-factor/", half(self.overview), name="two_factor"),
            path("two-factor/code/", half(self.ask_code), name="two_factor_code"),
            *super().get_urls(),
        ]

    def page(self, request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
        """Return a page in the frame of the back office; `template` stands in templates/admin."""
        request.current_app = self.name  # As every page of the admin does.
        shared = {**self.each_context(request), "title": title, "next": self.next_page(request)}
        response = TemplateResponse(request, f"admin/{template}.html", shared | context)
        return slowed_down(response, context.get("form"))

    def next_page(self, request: HttpRequest) -> str:
        """Return the page that was asked for, if it is one of ours; else the home page."""
        wanted = request.POST.get(REDIRECT_FIELD_NAME) or request.GET.get(REDIRECT_FIELD_NAME) or ""
        safe = url_has_allowed_host_and_scheme(
            wanted, {request.get_host()}, require_https=request.is_secure()
        )
        return wanted if safe else reverse("admin:index")

    def with_next(self, request: HttpRequest, page: str) -> HttpResponse:
        """Lead to a page, and from there to the one that was asked for."""
        query = urlencode({REDIRECT_FIELD_NAME: self.next_page(request)})
        return redirect(f"{reverse(page)}?{query}")

    def ask_code(self, request: HttpRequest) -> HttpResponse:
        if self.has_permission(request) or not has_second_factor(request):
            return redirect(self.next_page(request))
        form = CodeForm(request)
        form.fields["code"].widget.attrs["autofocus"] = ""  # Elsewhere there is something to read first.
        if form.is_valid():
            form.enter()
            record(Actor.of(request), form.user, Action.SIGNED_IN)
            response = redirect(self.next_page(request))
            remember_browser(response, form.user)
            return response
        return self.page(request, "two_factor/code", "Enter your code", form=form)

    def overview(self, request: HttpRequest) -> HttpResponse:
        """Show the second factor, or set one up; who has one must have given a code."""
        if not has_second_factor(request):
            return self.set_up(request)
        if not self.has_permission(request):
            return self.with_next(request, "admin:two_factor_code")
        return self.manage(request)

    def set_up(self, request: HttpRequest) -> HttpResponse:
        """Show a secret to put into an app, and take it once a code proves that it is there."""
        user = cast("User", request.user)
        device = device_to_confirm(request)
        form = SetUpForm(request, device)
        if not form.is_valid():
            secret = b32encode(device.bin_key).decode()
            qr = segno.make(device.config_url, error="m").svg_data_uri(scale=5, border=3, light="white")
            return self.page(
                request, "two_factor/set_up", "Set up two-factor sign-in",
                form=form,
                qr=qr,
                secret=" ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
                may_leave=self.has_permission(request),
            )  # fmt: skip
        with transaction.atomic():
            User.objects.select_for_update().get(pk=user.pk)
            if not TOTPDevice.objects.filter(pk=device.pk).update(confirmed=True):
                return self.with_next(request, "admin:two_factor")  # Another session was faster.
            TOTPDevice.objects.filter(user=user).exclude(pk=device.pk).delete()
            codes = new_recovery_codes(user)
            record(Actor.of(request), user, Action.TWO_FACTOR_ON)
        form.enter()
        response = self.show_codes(request, codes)
        remember_browser(response, user)
        return response

    def show_codes(self, request: HttpRequest, codes: list[str]) -> HttpResponse:
        """Show new recovery codes: the only time."""
        return self.page(request, "two_factor/codes", "Keep your recovery codes", codes=codes)

    def manage(self, request: HttpRequest) -> HttpResponse:
        """Show what is set up; make new recovery codes or turn it all off, given password and code."""
        form = ManageForm(request)
        user = form.user
        if form.is_valid():
            with transaction.atomic():
                if "renew" in request.POST:
                    record(Actor.of(request), user, Action.RECOVERY_CODES)
                    return self.show_codes(request, new_recovery_codes(user))
                remove(user)
                record(Actor.of(request), user, Action.TWO_FACTOR_OFF)
            messages.success(request, "Two-factor sign-in is off. The codes of your app no longer work.")
            return redirect("admin:index")
        return self.page(
            request, "two_factor/manage", "Two-factor sign-in",
            form=form,
            device=TOTPDevice.objects.filter(user=user, confirmed=True).first(),
            codes_left=StaticToken.objects.filter(device__user=user).count(),
        )  # fmt: skip


def slowed_down(response: TemplateResponse, form: Any) -> TemplateResponse:
    """Return the response; after too many attempts with its form as a 429, with when to come back."""
    if seconds := getattr(form, "seconds_to_wait", 0):
        response.status_code = 429
        response["Retry-After"] = str(seconds)
    return response
