"""The admin site: access control, sign-in, two-factor pages and error handling."""

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
from petstore.backoffice.audit import Action, Actor, record, record_password_change
from petstore.backoffice.error_pages import View, render_errors
from petstore.backoffice.login import LoginForm, remember_browser
from petstore.backoffice.password_links import NewPasswordView

NOT_SAVED_COOKIE = "not_saved"


class PetstoreAdminSite(UnfoldAdminSite):
    index_title = "Overview"
    login_form = LoginForm

    def has_permission(self, request: HttpRequest) -> bool:
        """Require active staff and, with a second factor, a verified code. All pages rely on this check."""
        return super().has_permission(request) and not self.get_missing_step(request)

    def get_missing_step(self, request: HttpRequest) -> str:
        """Return the URL name of the page that completes the sign-in, or an empty string."""
        if getattr(request.user, "otp_device", None) is not None:
            return ""
        if two_factor.has_second_factor(request):
            return "admin:two_factor_code"
        return "admin:two_factor" if settings.STAFF_TWO_FACTOR == "required" else ""

    def is_authenticated_staff(self, request: HttpRequest) -> bool:
        """Whether a member of staff has entered the password. The code may still be missing."""
        return super().has_permission(request)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Add error pages, and a warning if a form was lost because the session had expired."""
        inner: View = super().admin_view(render_errors(self, view), cacheable)

        @wraps(inner)
        def warning_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            is_form = request.method == "POST" and SEARCH_VAR not in request.POST
            if is_form and not self.has_permission(request):
                return self.redirect_to_sign_in(request)
            if not request.COOKIES.get(NOT_SAVED_COOKIE) or not self.has_permission(request):
                return inner(request, *args, **kwargs)
            messages.warning(request, "You were signed out, so your form was not saved. Fill it in again.")
            response = inner(request, *args, **kwargs)
            response.delete_cookie(NOT_SAVED_COOKIE, reverse("admin:index"))
            return response

        return warning_view

    def redirect_to_sign_in(self, request: HttpRequest) -> HttpResponse:
        """Redirect a form posted without a session to the sign-in page, which leads back to the form.

        A cookie records that the form was lost, because anonymous requests must not create sessions.
        """
        form_url, hosts = request.headers.get("Referer", ""), {request.get_host()}
        if url_has_allowed_host_and_scheme(form_url, hosts, require_https=request.is_secure()):
            next_url = urlsplit(form_url)._replace(scheme="", netloc="").geturl()
        else:
            next_url = request.get_full_path()
        response = redirect_to_login(next_url, reverse("admin:login"))
        if request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate":  # The palette uses fetch().
            options: Any = {"path": reverse("admin:index"), "secure": settings.SESSION_COOKIE_SECURE}
            response.set_cookie(NOT_SAVED_COOKIE, "1", httponly=True, samesite="Lax", **options)
        return response

    def get_urls(self) -> list[Any]:
        """Add the pages that are available without a complete sign-in."""

        def require_password(view: View) -> View:
            def checked_view(request: HttpRequest) -> HttpResponse:
                return view(request) if self.is_authenticated_staff(request) else redirect("admin:login")

            return never_cache(checked_view)

        new_password = NewPasswordView.as_view(site=self)
        return [
            path("sign-in-help/", self.sign_in_help, name="sign_in_help"),
            path("new-password/<uidb64>/<token>/", new_password, name="new_password"),
            path("logout/", never_cache(self.logout), name="logout"),
            path("two-factor/", require_password(self.two_factor), name="two_factor"),
            path("two-factor/code/", require_password(self.ask_code), name="two_factor_code"),
            *super().get_urls(),
        ]

    def render_page(
        self, request: HttpRequest, template: str, title: str, *, status: int = 200, **context: Any
    ) -> TemplateResponse:
        """Render `admin/{template}.html` with the context that all admin pages share."""
        request.current_app = self.name
        shared = {**self.each_context(request), "title": title, "content_title": title}
        shared["next"] = self.get_next_url(request)
        response = TemplateResponse(request, f"admin/{template}.html", shared | context, status=status)
        return apply_rate_limit(response, context.get("form"))

    def get_next_url(self, request: HttpRequest) -> str:
        """Return the URL in `next` if it is safe, else that of the home page."""
        url = request.POST.get(REDIRECT_FIELD_NAME) or request.GET.get(REDIRECT_FIELD_NAME) or ""
        hosts = {request.get_host()}
        is_safe = url_has_allowed_host_and_scheme(url, hosts, require_https=request.is_secure())
        return url if is_safe else reverse("admin:index")

    def redirect_with_next(self, request: HttpRequest, url_name: str) -> HttpResponse:
        query = urlencode({REDIRECT_FIELD_NAME: self.get_next_url(request)})
        return redirect(f"{reverse(url_name)}?{query}")

    def sign_in_help(self, request: HttpRequest) -> HttpResponse:
        return self.render_page(request, "sign_in_help", "Can't sign in?")

    @login_not_required
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Sign in, or redirect to the next step of an incomplete sign-in."""
        if request.method == "GET" and self.is_authenticated_staff(request):
            missing_step = self.get_missing_step(request)
            if missing_step:
                return self.redirect_with_next(request, missing_step)
        if has_unreadable_cookies(request):
            messages.warning(request, COOKIES_UNREADABLE)
        context = {"title": "Sign in", "not_saved": request.COOKIES.get(NOT_SAVED_COOKIE)}
        response: HttpResponse = super().login(request, context | (extra_context or {}))
        if isinstance(response, TemplateResponse):
            apply_rate_limit(response, (response.context_data or {}).get("form"))
        elif request.method == "POST" and self.has_permission(request):
            remember_browser(response, cast("User", request.user))
        return response

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        response = super().password_change(request, extra_context)
        if request.method == "POST" and response.status_code == 302:
            user = cast("User", request.user)
            record_password_change(request, user, "Changed their own password.")
            remember_browser(response, user)
        return response

    def extra_context(self, context: dict[str, Any], request: HttpRequest) -> dict[str, Any]:
        return context | {"colors": {}}  # The CSP forbids inline styles; backoffice.css sets the colours.

    @method_decorator(require_POST)  # Keeps search terms out of URLs and logs.
    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Replace Unfold's search, which caches its results."""
        results = palette.search(request, request.POST.get("s", ""))
        return TemplateResponse(request, "admin/palette_results.html", {"results": results})

    # --- The second factor

    def ask_code(self, request: HttpRequest) -> HttpResponse:
        if self.has_permission(request) or not two_factor.has_second_factor(request):
            return redirect(self.get_next_url(request))
        form = two_factor.CodeForm(request)
        form.fields["code"].widget.attrs["autofocus"] = ""
        if form.is_valid():
            form.mark_verified()
            record(Actor.from_request(request), form.user, Action.SIGNED_IN)
            response = redirect(self.get_next_url(request))
            remember_browser(response, form.user)
            return response
        return self.render_page(request, "two_factor/code", "Enter your code", form=form)

    def two_factor(self, request: HttpRequest) -> HttpResponse:
        if not two_factor.has_second_factor(request):
            return self.set_up(request)
        if not self.has_permission(request):
            return self.redirect_with_next(request, "admin:two_factor_code")
        return self.manage(request)

    def set_up(self, request: HttpRequest) -> HttpResponse:
        """Show a new secret, then confirm the device with its first code."""
        user = cast("User", request.user)
        device = two_factor.get_or_create_pending_device(request)
        form = two_factor.SetUpForm(request, device)
        if not form.is_valid():
            secret = b32encode(device.bin_key).decode()
            qr = segno.make(device.config_url, error="m").svg_data_uri(scale=5, border=3, light="white")
            return self.render_page(
                request, "two_factor/set_up", "Set up two-factor sign-in", form=form, qr=qr,
                otpauth_url=device.config_url,
                secret=" ".join(secret[start : start + 4] for start in range(0, len(secret), 4)),
                may_leave=self.has_permission(request),
            )  # fmt: skip
        with transaction.atomic():
            User.objects.select_for_update().get(pk=user.pk)
            if not TOTPDevice.objects.filter(pk=device.pk).update(confirmed=True):
                # Another session has confirmed its device.
                return self.redirect_with_next(request, "admin:two_factor")
            TOTPDevice.objects.filter(user=user).exclude(pk=device.pk).delete()
            codes = two_factor.create_recovery_codes(user)
            record(Actor.from_request(request), user, Action.TWO_FACTOR_ON)
        form.mark_verified()
        response = self.show_codes(request, codes)
        remember_browser(response, user)
        return response

    def show_codes(self, request: HttpRequest, codes: list[str]) -> HttpResponse:
        return self.render_page(request, "two_factor/codes", "Save your recovery codes", codes=codes)

    def manage(self, request: HttpRequest) -> HttpResponse:
        """Show the second factor. Its form renews the recovery codes or turns two-factor off."""
        form = two_factor.ManageForm(request)
        user = form.user
        if form.is_valid():
            with transaction.atomic():
                if "renew" in request.POST:
                    record(Actor.from_request(request), user, Action.RECOVERY_CODES)
                    return self.show_codes(request, two_factor.create_recovery_codes(user))
                two_factor.remove_devices(user)
                record(Actor.from_request(request), user, Action.TWO_FACTOR_OFF)
            messages.success(request, "Two-factor sign-in is off. Codes from your app are no longer valid.")
            return redirect("admin:index")
        return self.render_page(
            request, "two_factor/manage", "Two-factor sign-in", form=form,
            device=TOTPDevice.objects.filter(user=user, confirmed=True).first(),
            codes_left=StaticToken.objects.filter(device__user=user).count(),
        )  # fmt: skip


def apply_rate_limit(response: TemplateResponse, form: Any) -> TemplateResponse:
    """Change the response to a 429 with Retry-After if its form rejected too many attempts."""
    if seconds := getattr(form, "seconds_to_wait", 0):
        response.status_code = 429
        response["Retry-After"] = str(seconds)
    return response
