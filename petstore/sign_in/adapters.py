"""Adapters that customize django-allauth."""

from typing import Any
from urllib.parse import urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from petstore.api.client_ip import get_client_address
from petstore.api.link_header import get_page_url
from petstore.mail.email_queue import check_address

WRONG_LOGIN = "Wrong username, email address or password."
WRONG_CODE = "This code is wrong or has been used before. Wait for the next code and try again."


class AccountAdapter(DefaultAccountAdapter):
    # Unknown names and wrong passwords get the same message, so that names can't be probed.
    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": WRONG_LOGIN,
        "email_password_mismatch": WRONG_LOGIN,
        "incorrect_password": "Wrong password.",
        "invalid_password_reset": "This link is no longer valid.",
    }

    def is_ajax(self, request: HttpRequest) -> bool:
        """Respond with JSON only to the passkey script."""
        return request.path == reverse("mfa_login_webauthn")

    def is_safe_url(self, url: str) -> bool:
        request = context.request
        return url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())

    def clean_email(self, email: str) -> str:
        check_address(email)
        return email

    def get_client_ip(self, request: HttpRequest) -> str:
        return str(get_client_address(request))

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        return reverse("admin:index" if request.user.is_staff else "portal:home")

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("mfa_index")

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        """Whether the last password, code or passkey of this session is too old (D48)."""
        request = context.request
        records = get_authentication_records(request, request.user)
        last = records[-1]["at"] if records else 0.0
        return bool(timezone.now().timestamp() - last >= settings.ACCOUNT_REAUTHENTICATION_TIMEOUT)

    def get_reset_password_from_key_url(self, key: str) -> str:
        return get_page_url(reverse("account_reset_password_from_key", args=key.split("-", 1)))

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:
        return get_page_url(reverse("account_confirm_email", args=[emailconfirmation.key]))


class MfaAdapter(DefaultMFAAdapter):
    error_messages = DefaultMFAAdapter.error_messages | {"incorrect_code": WRONG_CODE}

    def get_totp_label(self, user: AbstractBaseUser) -> str:
        return user.get_username()

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        """Bind passkeys to the host of BASE_URL. The Host header may name another one."""
        return {"id": str(urlsplit(settings.BASE_URL).hostname), "name": settings.MFA_TOTP_ISSUER}

    def get_public_key_credential_user_entity(self, user: AbstractBaseUser) -> dict[str, Any]:
        return super().get_public_key_credential_user_entity(user) | {"name": user.get_username()}

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Any) -> str:  # noqa: A002  allauth's name.
        return f"Passkey added on {timezone.now():%Y-%m-%d}"
