"""The site: who gets in, the frame of every page, and the pages about signing in."""

from base64 import b32encode
from functools import wraps
from typing import Any, cast
from urllib.parse import urlsplit

import segno
from django.conf import settings
from django.contrib import messages
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST
from django_otp.plugins.otp_static.models import StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.sites import UnfoldAdminSite

from petstore.api.request_headers import COOKIES_UNREADABLE, has_unreadable_cookies
from petstore.backoffice import palette, two_factor
from petstore.backoffice.audit import Action, Actor, record
from petstore.backoffice.error_pages import View, reject_bad_input, render_errors
from petstore.backoffice.login import LoginForm, remember_browser
from petstore.backoffice.password_links import NewPasswordView

NOT_SAVED = "not_saved"  # A cookie.
NOT_SAVED_TEXT = "The form that you sent while you were signed out was not saved. Fill it in again."


class PetstoreAdminSite(UnfoldAdminSite):
    """A site that lets nobody in without a code who has set one up, and has the pages for it."""

    index_title = "Overview"
    login_form = LoginForm

    def has_permission(self, request: HttpRequest) -> bool:
        """Let in staff who proved all that they must: the password, and a code if there is a second factor.

        This is the one place that decides it. Every page stands behind it.
        """
        return super().has_permission(request) and not self.missing_step(request)

    def missing_step(self, request: HttpRequest) -> str:
        """Return the page that a member of staff who gave the password must visit first, or nothing."""
        if getattr(request.user, "otp_device", None) is not None:
            return ""
        if two_factor.has_second_factor(request):
            return "admin:two_factor_code"
        return "admin:two_factor" if settings.STAFF_TWO_FACTOR == "required" else ""

    def is_authenticated_staff(self, request: HttpRequest) -> bool:
        """Tell whether somebody is staff, whatever they still must prove."""
        return super().has_permission(request)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Guard a page, and say so if a form was not saved because its session had ended."""
        inner: View = super().admin_view(render_errors(self, view), cacheable)

        @wraps(inner)
        def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            is_form = request.method == "POST" and SEARCH_VAR not in request.POST
            if is_form and not self.has_permission(request):
                return self.sign_in_again(request)
            if not request.COOKIES.get(NOT_SAVED) or not self.has_permission(request):
                return inner(request, *args, **kwargs)
            messages.warning(request, NOT_SAVED_TEXT)
            response = inner(request, *args, **kwargs)
            response.delete_cookie(NOT_SAVED, reverse("admin:index"))
            return response

        return reject_bad_input(page)

    def sign_in_again(self, request: HttpRequest) -> HttpResponse:
        """Answer a form that came without a session: lead to the sign-in, and back to the form from there.

        A cookie notes that it was not saved, as strangers must not make rows of sessions.
        """
        form, host = request.headers.get("Referer", ""), {request.get_host()}
        if url_has_allowed_host_and_scheme(form, host, require_https=request.is_secure()):
            back = urlsplit(form)._replace(scheme="", netloc="").geturl()
        else:  # Which may take no GET.
            back = request.get_full_path()
        response = redirect_to_login(back, reverse("admin:login"))
        if request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate":  # Not a search of the palette.
            path, secure = reverse("admin:index"), settings.SESSION_COOKIE_SECURE
            response.set_cookie(NOT_SAVED, "1", path=path, secure=secure, httponly=True, samesite="Lax")
        return response

    def get_urls(self) -> list[Any]:
        """Add the pages for those who can't sign in, or have given the password only."""

        def half(view: View) -> View:
            def half_view(request: HttpRequest) -> HttpResponse:
                return view(request) if self.is_authenticated_staff(request) else redirect("admin:login")

            return reject_bad_input(never_cache(half_view))

        choose = reject_bad_input(cast("View", NewPasswordView.as_view(site=self)))
        return [
            path("sign-in-help/", reject_bad_input(self.sign_in_help), name="sign_in_help"),
            path("new-password/<uidb64>/<token>/", choose, name="new_password"),
            path("logout/", reject_bad_input(never_cache(self.logout)), name="logout"),
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

    def sign_in_help(self, request: HttpRequest) -> HttpResponse:
        return self.page(request, "sign_in_help", "Can't sign in?")

    @login_not_required
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the login, or check it. Too many attempts: 429, and when to come back."""
        return reject_bad_input(self.checked_login)(request, extra_context)

    def checked_login(self, request: HttpRequest, extra_context: dict[str, Any] | None) -> HttpResponse:
        """Sign in; who has given the password already is led to the page that comes next."""
        if (
            request.method == "GET"
            and self.is_authenticated_staff(request)
            and (page := self.missing_step(request))
        ):
            return self.with_next(request, page)
        if has_unreadable_cookies(request):
            messages.warning(request, COOKIES_UNREADABLE)
        context = {"title": "Sign in", "not_saved": request.COOKIES.get(NOT_SAVED)}
        response: HttpResponse = super().login(request, context | (extra_context or {}))
        if isinstance(response, TemplateResponse):
            slowed_down(response, (response.context_data or {}).get("form"))
        elif request.method == "POST" and self.has_permission(request):
            remember_browser(response, cast("User", request.user))
        return response

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Change one's own password: every other session of the same person ends."""
        response = super().password_change(request, extra_context)
        if request.method == "POST" and response.status_code == 302:
            user, why = cast("User", request.user), "Their own password."
            old, new = {"password": "old"}, {"password": "new"}
            record(Actor.of(request), user, Action.CHANGED, before=old, after=new, reason=why)
            remember_browser(response, user)
        return response

    def extra_context(self, context: dict[str, Any], request: HttpRequest) -> dict[str, Any]:
        """Take the colours out of the page, where the CSP forbids them: backoffice.css has them."""
        return context | {"colors": {}}

    # By POST: addresses are logged, and what staff search for must not be.
    @method_decorator(require_POST)
    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Return what the palette lists; unfold's own search would keep results in a cache."""
        results = palette.find(request, request.POST.get("s", ""))
        return TemplateResponse(request, "admin/palette_results.html", {"results": results})

    # --- The second factor

    def ask_code(self, request: HttpRequest) -> HttpResponse:
        if self.has_permission(request) or not two_factor.has_second_factor(request):
            return redirect(self.next_page(request))
        form = two_factor.CodeForm(request)
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
        if not two_factor.has_second_factor(request):
            return self.set_up(request)
        if not self.has_permission(request):
            return self.with_next(request, "admin:two_factor_code")
        return self.manage(request)

    def set_up(self, request: HttpRequest) -> HttpResponse:
        """Show a secret to put into an app, and take it once a code proves that it is there."""
        user = cast("User", request.user)
        device = two_factor.device_to_confirm(request)
        form = two_factor.SetUpForm(request, device)
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
            codes = two_factor.new_recovery_codes(user)
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
        form = two_factor.ManageForm(request)
        user = form.user
        if form.is_valid():
            with transaction.atomic():
                if "renew" in request.POST:
                    record(Actor.of(request), user, Action.RECOVERY_CODES)
                    return self.show_codes(request, two_factor.new_recovery_codes(user))
                two_factor.remove(user)
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
