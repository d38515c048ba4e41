"""django-allauth's forms, with rate limits and strict checks of passkeys."""

import json
import struct
from typing import Any, cast

from allauth.account import forms as account_forms
from allauth.account.models import EmailAddress
from allauth.core import context
from allauth.mfa.base import forms as mfa_forms
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn import forms as webauthn_forms
from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from fido2.utils import websafe_decode

from petstore.mail.models import DISCARDED
from petstore.sign_in.backends import find_user, normalize_login
from petstore.sign_in.password_links import PasswordLinkTokenGenerator
from petstore.sign_in.rate_limits import check_limits, check_sign_in_limits, get_mail_limits
from petstore.sign_in.receivers import record_failed_sign_in

MAX_PASSWORD_LENGTH = 1000
MAX_CREDENTIAL_LENGTH = 20_000
MAX_PASSKEYS = 20  # Signing in reads all of them.
MALFORMED = "This passkey belongs to another site, or its response is incomplete. Try again."
CODE_HELP = "Enter the code that your app shows, or one of your recovery codes."


class LoginForm(account_forms.LoginForm):
    """Checks the rate limits before the password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].label = "Username or email address"
        self.fields["login"].widget.attrs = {"autocomplete": "username", "autofocus": ""}
        self.fields["password"].widget.attrs.pop("placeholder", None)
        self.fields["password"].help_text = ""

    def clean_login(self) -> str:
        return normalize_login(self.cleaned_data["login"])

    def clean(self) -> Any:
        # Attempts by username and by email address share a counter.
        login = normalize_login(self.data.get("login", ""))
        user = find_user(login)
        check_sign_in_limits(self.request, user.username if user else login)
        return super().clean()  # type: ignore[no-untyped-call]

    def login(self, request: Any, redirect_url: str | None = None) -> Any:
        """Bind a sign-in that still lacks its second factor to the password and to a new session key."""
        self._login.state["password"] = cast("User", self._login.user).get_session_auth_hash()
        request.session.cycle_key()
        return super().login(request, redirect_url)


class ReauthenticateForm(account_forms.ReauthenticateForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].widget.attrs = {"autocomplete": "current-password", "autofocus": ""}
        self.fields["password"].help_text = ""

    def clean_password(self) -> str:
        check_sign_in_limits(context.request, self.user.username)
        password: str = super().clean_password()
        return password


class ChangePasswordForm(account_forms.ChangePasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        labels = "Current password", "New password", "Confirm the password"
        for name, label in zip(self.fields, labels, strict=True):
            self.fields[name].label = label
            self.fields[name].widget.attrs.pop("placeholder", None)
        self.fields["oldpassword"].help_text = ""

    def clean_oldpassword(self) -> str:
        user, password = cast("User", self.user), str(self.cleaned_data["oldpassword"])
        check_sign_in_limits(context.request, user.username)
        if not user.check_password(password):
            record_failed_sign_in(context.request, user, "Wrong current password for a password change.")
            raise ValidationError("Wrong password.")
        return password


class CodeField(forms.CharField):
    """The code of an authenticator app, or a recovery code, without spaces and in lower case."""

    def __init__(self, **attributes: Any) -> None:
        widget = forms.TextInput(attrs={"autocomplete": "one-time-code", **attributes})
        super().__init__(max_length=20, help_text=CODE_HELP, widget=widget)

    def to_python(self, value: Any) -> str:
        return "".join(str(super().to_python(value)).split()).lower()


class CodeForm(mfa_forms.BaseAuthenticateForm):
    """A mixin that checks the rate limits before the code."""

    code = CodeField(autofocus="")

    def clean_code(self) -> str:
        check_sign_in_limits(context.request, self.user.username, is_code=True)
        return str(super().clean_code())


class AuthenticateForm(CodeForm, mfa_forms.AuthenticateForm):
    pass


class ReauthenticateCodeForm(CodeForm, mfa_forms.ReauthenticateForm):
    pass


class DeactivateForm(mfa_forms.BaseAuthenticateForm):
    """Asks for password and code, so that an unattended browser can't remove factors."""

    password = forms.CharField(
        label="Your password",
        max_length=MAX_PASSWORD_LENGTH,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    code = CodeField()
    field_order = ("password", "code")

    def __init__(self, data: Any = None, *, authenticator: Authenticator, **kwargs: Any) -> None:
        # django-allauth binds an empty dict to GET requests.
        super().__init__(data or None, user=authenticator.user, **kwargs)

    def clean_code(self) -> str:
        """Check the password first, because verifying a code uses it up."""
        if self.errors:
            return ""
        check_sign_in_limits(context.request, self.user.username, is_code=True)
        if not self.user.check_password(self.cleaned_data["password"]):
            record_failed_sign_in(context.request, self.user, "Wrong password to remove a factor.")
            self.add_error("password", "Wrong password.")
            return ""
        return str(super().clean_code())


class ResetPasswordForm(account_forms.ResetPasswordForm):
    """Sends mail only to confirmed addresses of active users who are not staff (D48)."""

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"].lower()
        check_limits(context.request, get_mail_limits(context.request, email))
        addresses = EmailAddress.objects.filter(email=email, verified=True, user__is_active=True)
        users = [address.user for address in addresses.filter(user__is_staff=False).select_related("user")]
        # Other addresses cause the same queries and rows, so that these do not reveal users.
        self.users = users or [User(pk=0)]
        return email if users else DISCARDED


class ResetTokenForm(account_forms.UserTokenForm):
    """Accepts links of emails from customers, and links of an Owner from staff."""

    is_locking = False

    def clean(self) -> Any:
        """Lock the user of a valid link, and check it again, so that concurrent requests use it once."""
        super().clean()  # type: ignore[no-untyped-call]
        self.is_locking = True
        return super().clean()  # type: ignore[no-untyped-call]

    def _get_user(self, uidb36: str) -> User | None:
        found: User | None = super()._get_user(uidb36)  # type: ignore[no-untyped-call]
        users = User.objects.select_for_update() if self.is_locking else User.objects.all()
        user = users.filter(pk=found.pk if found else 0, is_active=True).first()
        if user is not None and user.is_staff:
            self.token_generator = PasswordLinkTokenGenerator()
        return user


# --- Passkeys


class CredentialField(forms.CharField):
    """The response of a browser, as JSON. Checks its shape and its exact origin.

    The library that verifies it accepts every subdomain of the relying party.
    """

    def clean(self, value: Any) -> Any:
        try:
            credential = json.loads(super().clean(value))
            client_data = json.loads(websafe_decode(credential["response"]["clientDataJSON"]))
            if client_data["origin"] == settings.ORIGIN and isinstance(credential["rawId"], str):
                return credential
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            pass
        raise ValidationError(MALFORMED)


class PasskeyForm(forms.Form):
    """A mixin that rejects malformed responses, for which the library raises exceptions of many kinds."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["credential"] = CredentialField(
            max_length=MAX_CREDENTIAL_LENGTH, widget=forms.HiddenInput
        )

    def full_clean(self) -> None:
        try:
            super().full_clean()
        except (
            AssertionError, AttributeError, LookupError, NotImplementedError, RecursionError, TypeError,
            ValueError, struct.error,
        ):  # fmt: skip
            self.cleaned_data: dict[str, Any] = {}
            self.add_error("credential", MALFORMED)


class AddPasskeyForm(PasskeyForm, webauthn_forms.AddWebAuthnForm):
    def clean(self) -> dict[str, Any]:
        list(User.objects.select_for_update(no_key=True).filter(pk=self.user.pk))  # Others wait to count.
        if Authenticator.objects.filter(user=self.user, type="webauthn").count() >= MAX_PASSKEYS:
            raise ValidationError(f"You have {MAX_PASSKEYS} passkeys. Remove one first.")
        return super().clean()


class AuthenticatePasskeyForm(PasskeyForm, webauthn_forms.AuthenticateWebAuthnForm):
    pass


class LoginPasskeyForm(PasskeyForm, webauthn_forms.LoginWebAuthnForm):
    pass


class ReauthenticatePasskeyForm(PasskeyForm, webauthn_forms.ReauthenticateWebAuthnForm):
    pass
