"""Signing in: who may try, and how often."""

import logging
import sqlite3
import unicodedata
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django_ratelimit.core import get_usage
from unfold.forms import AuthenticationForm

from petstore.api.client_ip import client_network
from petstore.backoffice.wording import counted

logger = logging.getLogger(__name__)

LOGINS_PER_ADDRESS = "10/m"
LOGINS_PER_NAME = "10/5m"  # Lower would let anybody lock out a colleague whose name is known for long.


def count_attempt(request: HttpRequest, name: str) -> int:
    """Count an attempt to sign in as somebody. Return the seconds to wait if there were too many, else 0.

    The name counts in the form that Django looks up. An attempt refused for its address doesn't count for
    the name: flooding from one place locks nobody out.
    """
    spelled = unicodedata.normalize("NFKC", name.strip())
    for group, key, rate in (
        ("login by address", lambda group, request: client_network(request), LOGINS_PER_ADDRESS),
        ("login by name", lambda group, request: spelled, LOGINS_PER_NAME),
    ):
        try:
            usage = get_usage(request, group=group, key=key, rate=rate, increment=True)
        except sqlite3.Error:  # Staff must get in while the counters are away: the password still guards.
            logger.exception("The counters of attempts to sign in can't be reached.")
            continue
        if usage["should_limit"] and usage["limit"]:  # 0: the counter ended while it was asked.
            # django-ratelimit still counts in the second it names as the end: the next one is free.
            return max(1, int(usage["time_left"]) + 1)
    return 0


def in_words(seconds: int) -> str:
    """Return a wait as people say it, rounded up."""
    return counted(-(-seconds // 60), "minute") if seconds > 90 else counted(seconds, "second")


class LoginForm(AuthenticationForm):
    """Refuses before the password is looked at, once there were too many attempts."""

    # Nothing tells a wrong name from a wrong password.
    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": "That name and password do not match an account. Both are case-sensitive."
    }
    seconds_to_wait = 0

    def clean(self) -> dict[str, Any]:
        assert self.request is not None
        self.seconds_to_wait = count_attempt(self.request, self.request.POST.get("username", ""))
        if self.seconds_to_wait:
            wait = in_words(self.seconds_to_wait)
            raise ValidationError(f"Too many attempts to sign in. Try again in {wait}.")
        return super().clean()
