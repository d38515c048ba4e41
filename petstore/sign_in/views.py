"""django-allauth's views, as far as this project changes them."""

from datetime import UTC, datetime
from typing import Any, cast

from allauth.account import views as account_views
from allauth.account.internal.decorators import login_stage_required
from allauth.mfa.base import views as mfa_views
from allauth.mfa.models import Authenticator
from allauth.mfa.stages import AuthenticateStage
from allauth.mfa.totp import views as totp_views
from allauth.mfa.utils import is_mfa_enabled
from allauth.mfa.webauthn import views as passkey_views
from allauth.usersessions.internal.flows.sessions import end_sessions
from allauth.usersessions.models import UserSession
from allauth.usersessions.views import ListUserSessionsView
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic.edit import FormView

from petstore.api.client_ip import get_client_network
from petstore.api.int64 import parse_id
from petstore.api.request_headers import COOKIES_UNREADABLE, has_unreadable_cookies
from petstore.backoffice.sessions import LAST_SEEN_AT
from petstore.sign_in.browsers import describe_browser
from petstore.sign_in.forms import DeactivateForm
from petstore.sign_in.known_browsers import remember_browser
from petstore.sign_in.rate_limits import (
    CHALLENGES_PER_ADDRESS,
    count_attempt,
    describe_wait,
    get_mail_limits,
)
from petstore.sign_in.second_factors import has_second_factor


class LoginView(account_views.LoginView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        cookies_unreadable = has_unreadable_cookies(self.request) and COOKIES_UNREADABLE
        return super().get_context_data(**kwargs) | {"cookies_unreadable": cookies_unreadable}


@method_decorator(login_stage_required(AuthenticateStage.key, "account_login"), name="dispatch")
class AuthenticateView(mfa_views.AuthenticateView):
    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Require an active user with the password of the first step and a second factor."""
        login = request._login_stage.login
        is_usable = login.user and login.user.is_active and has_second_factor(login.user)
        if is_usable and login.state.get("password") == login.user.get_session_auth_hash():
            return super().dispatch(request, *args, **kwargs)
        messages.warning(request, "Your password or second factor has changed. Start again.")
        return request._login_stage.abort()


class RememberBrowserView(FormView):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Renews the cookie of the known browser, which the change may have made invalid."""

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        remember_browser(response, cast("User", self.request.user))
        return response


class ActivateTOTPView(RememberBrowserView, totp_views.ActivateTOTPView):
    pass


class LoginPasskeyView(passkey_views.LoginWebAuthnView):
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        limit = ("challenge by address", get_client_network(request), CHALLENGES_PER_ADDRESS)
        if count_attempt(request, [limit]):
            return HttpResponse()
        return super().get(request, *args, **kwargs)


@method_decorator(transaction.atomic, name="dispatch")  # AddPasskeyForm locks the user.
class AddPasskeyView(passkey_views.AddWebAuthnView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Keep the validated form. django-allauth's own would be validated again, after the transaction."""
        return super().get_context_data() | kwargs


class RemovePasskeyView(passkey_views.RemoveWebAuthnView):
    def get_form(self, form_class: Any = None) -> Any:
        """Ask for password and code unless an authenticator app remains (D48)."""
        if is_mfa_enabled(self.object.user, [Authenticator.Type.TOTP]):
            return super().get_form(form_class)
        return DeactivateForm(authenticator=self.object, **self.get_form_kwargs())


class ChangePasswordView(RememberBrowserView, account_views.PasswordChangeView):
    pass


@method_decorator(transaction.atomic, name="dispatch")  # ResetTokenForm locks the user.
class PasswordLinkView(account_views.PasswordResetFromKeyView):
    success_url = reverse_lazy("account_login")

    def logout(self) -> None:
        """Sign out no one: another site may have led the browser of another user here."""

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        status = 410 if context.get("token_fail") else 200
        response: HttpResponse = super().render_to_response(context, status=status, **kwargs)
        return response


class EmailView(account_views.EmailView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Limit the confirmations to each address and from each client."""
        email = request.POST.get("email", "").strip().lower()
        if {"action_add", "action_send"} & request.POST.keys() and (
            seconds := count_attempt(request, get_mail_limits(request, email))
        ):
            return render(request, "account/too_many.html", {"wait": describe_wait(seconds)})
        with transaction.atomic():
            return super().post(request, *args, **kwargs)


class SessionsView(ListUserSessionsView):
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """List the sessions that have not expired, with browser and time of the last request."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        stored = Session.objects.in_bulk([session.session_key for session in context["sessions"]])
        rows, now = [], timezone.now()
        for session in context["sessions"]:
            data = stored[session.session_key].get_decoded() if session.session_key in stored else {}
            last_seen = data.get(LAST_SEEN_AT, 0)
            if now.timestamp() - last_seen < settings.SESSION_IDLE_SECONDS:
                last_seen_at = datetime.fromtimestamp(last_seen, UTC)
                rows.append((session, describe_browser(session.user_agent), last_seen_at))
        rows.sort(key=lambda row: row[2], reverse=True)
        return context | {"rows": rows}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """End the session with the ID in the form, or all others."""
        if "session" not in request.POST:
            return super().post(request, *args, **kwargs)
        sessions = UserSession.objects.filter(user=request.user.pk)
        session = get_object_or_404(sessions, pk=parse_id(request.POST["session"]))
        end_sessions(request, [session])
        messages.success(request, f"{describe_browser(session.user_agent)} is signed out.")
        return redirect(self.success_url)


class ConfirmEmailView(account_views.ConfirmEmailView):
    def logout_other_user(self, confirmation: Any) -> None:
        """Sign out no one: the link may have been opened in a browser of another user."""


@never_cache
def sign_in_help(request: HttpRequest) -> HttpResponse:
    return render(request, "account/help.html")
