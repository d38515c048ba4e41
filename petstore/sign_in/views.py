"""django-allauth's views, with 429 after too many attempts."""

from typing import Any, cast

from allauth.account import views as account_views
from allauth.mfa.base import views as mfa_views
from allauth.mfa.models import Authenticator
from allauth.mfa.totp import views as totp_views
from allauth.mfa.utils import is_mfa_enabled
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.generic.base import TemplateResponseMixin

from petstore.api.request_headers import COOKIES_UNREADABLE, has_unreadable_cookies
from petstore.sign_in.known_browsers import remember_browser


class RateLimitedView(TemplateResponseMixin):
    """A mixin that responds with 429 and Retry-After if the form has rejected too many attempts."""

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        response = super().render_to_response(context, **kwargs)
        if seconds := getattr(context.get("form"), "seconds_to_wait", 0):
            response.status_code = 429
            response["Retry-After"] = str(seconds)
        return response


class LoginView(RateLimitedView, account_views.LoginView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        is_unreadable = has_unreadable_cookies(self.request)
        return super().get_context_data(**kwargs) | {
            "cookies_unreadable": COOKIES_UNREADABLE if is_unreadable else ""
        }


class ReauthenticateView(RateLimitedView, account_views.ReauthenticateView):
    pass


class AuthenticateView(RateLimitedView, mfa_views.AuthenticateView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        has_passkey = is_mfa_enabled(self.stage.login.user, [Authenticator.Type.WEBAUTHN])
        return super().get_context_data(**kwargs) | {"has_passkey": has_passkey}


class ReauthenticateCodeView(RateLimitedView, mfa_views.ReauthenticateView):
    pass


class ActivateTOTPView(RateLimitedView, totp_views.ActivateTOTPView):
    def form_valid(self, form: Any) -> HttpResponse:
        response: HttpResponse = super().form_valid(form)
        remember_browser(response, cast("User", self.request.user))
        return response


class DeactivateTOTPView(RateLimitedView, totp_views.DeactivateTOTPView):
    def get_form_kwargs(self) -> dict[str, Any]:
        kwargs: dict[str, Any] = super().get_form_kwargs()
        if self.request.method != "POST":
            del kwargs["data"]  # An empty form shows no errors.
        return kwargs


class ResetPasswordView(RateLimitedView, account_views.PasswordResetView):
    pass


class ChangePasswordView(account_views.PasswordChangeView):
    def form_valid(self, form: Any) -> HttpResponse:
        response: HttpResponse = super().form_valid(form)
        remember_browser(response, cast("User", self.request.user))
        return response


@never_cache
def sign_in_help(request: HttpRequest) -> HttpResponse:
    return render(request, "account/help.html")
