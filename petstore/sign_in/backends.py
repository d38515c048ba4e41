"""Authentication by username or confirmed email address."""

import unicodedata
from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from django.contrib.auth.models import User
from django.http import HttpRequest

MAX_LOGIN_LENGTH = 254  # Characters of an email address. Usernames are shorter.


def normalize_login(login: str) -> str:
    """Normalize like Django's UsernameField, so that all spellings share a rate limit."""
    return unicodedata.normalize("NFKC", login.strip())[:MAX_LOGIN_LENGTH]


def find_user(login: str) -> User | None:
    """Find the user with this username or confirmed email address, always in two queries.

    A single one could not use the indexes. Of two matches, the confirmed address wins: anyone can choose a
    username that looks like an address.
    """
    login = normalize_login(login)
    by_name = User.objects.filter(username=login).first()
    confirmed = User.objects.filter(emailaddress__email=login.lower(), emailaddress__verified=True)
    return confirmed.first() or by_name


class SignInBackend(AuthenticationBackend):
    """Computes exactly one password hash, whether or not the user exists."""

    def _authenticate(self, request: HttpRequest | None, **credentials: Any) -> Any:
        # Reauthentication sends both, and its address may be unconfirmed.
        login = credentials.get("username") or credentials.get("email") or ""
        return self._check_password(find_user(login), credentials["password"])
