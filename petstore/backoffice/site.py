"""The site: what holds for all of the back office."""

from functools import wraps
from typing import Any, cast
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from petstore.api.head import COOKIES_UNREADABLE, has_unreadable_cookies
from petstore.backoffice import palette
from petstore.backoffice.audit import Action, Actor, record
from petstore.backoffice.error_pages import framed
from petstore.backoffice.input_guard import View, guarded
from petstore.backoffice.known_browsers import remember_browser
from petstore.backoffice.login import LoginForm
from petstore.backoffice.password_links import NewPassword
from petstore.backoffice.two_factor import TwoFactorSite, slowed_down

NOT_SAVED = "not_saved"  # A cookie.
NOT_SAVED_TEXT = "The form that you sent while you were signed out was not saved. Fill it in again."


class PetstoreAdminSite(TwoFactorSite):
    index_title = "Overview"
    login_form = LoginForm

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Guard a page, and say so if a form was not saved because its session had ended."""
        inner: View = super().admin_view(framed(self, view), cacheable)

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

        return guarded(page)

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
        """Add the pages for those who can't sign in, or not yet."""
        choose = guarded(cast("View", NewPassword.as_view(site=self)))
        return [
            path("sign-in-help/", guarded(self.sign_in_help), name="sign_in_help"),
            path("new-password/<uidb64>/<token>/", choose, name="new_password"),
            *super().get_urls(),
        ]

    def sign_in_help(self, request: HttpRequest) -> HttpResponse:
        return self.page(request, "sign_in_help", "Can't sign in?")

    @login_not_required
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the login, or check it. Too many attempts: 429, and when to come back."""
        return guarded(self.checked_login)(request, extra_context)

    def checked_login(self, request: HttpRequest, extra_context: dict[str, Any] | None) -> HttpResponse:
        """Sign in; who has given the password already is led to the page that comes next."""
        if request.method == "GET" and self.half_signed_in(request) and (page := self.lacks(request)):
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
