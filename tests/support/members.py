"""Members of accounts, for tests of the pages for customers."""

from __future__ import annotations

import time
from html import unescape
from typing import Any

from allauth.account.internal.flows.login import AUTHENTICATION_METHODS_SESSION_KEY
from django.contrib.auth.models import User
from django.test import Client

from accounts.models import Account, Membership, Role
from tests.support.staff import PASSWORD, signed_in


def sign_in(user: User, hours_ago: float = 0) -> Client:
    """Return a client of the user, with the password entered this long ago."""
    client = signed_in(user)
    session = client.session
    at = time.time() - hours_ago * 3600
    session[f"{AUTHENTICATION_METHODS_SESSION_KEY}_user"] = str(user.pk)
    session[AUTHENTICATION_METHODS_SESSION_KEY] = [{"method": "password", "at": at}]
    session.save()
    return client


def member_of(account: Account, role: str = Role.OWNER, name: str = "kim") -> Client:
    """A signed-in client of a new member."""
    user = User.objects.create_user(name, email=f"{name}@example.com", password=PASSWORD)
    Membership.objects.create(account=account, user=user, role=role)
    return sign_in(user)


def get_errors(page: Any) -> str:
    """Return the errors of the form on a page."""
    errors = [error for errors in page.context["form"].errors.values() for error in errors]
    return unescape(" ".join(map(str, errors)))
