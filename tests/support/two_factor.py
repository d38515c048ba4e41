"""Authenticator apps and recovery codes of users."""

from __future__ import annotations

import re
import time
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.contrib.auth.models import User

STEP = 30  # Seconds.


def add_app(user: User) -> str:
    """Give the user an authenticator app; return its secret."""
    secret = generate_totp_secret()
    TOTP.activate(user, secret)
    return secret


def add_recovery_codes(user: User, *codes: str) -> None:
    data = {"migrated_codes": list(codes), "viewed_at": time.time()}
    Authenticator.objects.create(user=user, type=Authenticator.Type.RECOVERY_CODES, data=data)


def get_recovery_codes(user: User) -> list[str]:
    codes = Authenticator.objects.get(user=user, type=Authenticator.Type.RECOVERY_CODES)
    unused: list[str] = codes.wrap().get_unused_codes()
    return unused


def current_code(secret: str, steps: int = 0) -> str:
    """Return the app's code now, or some steps of 30 s later."""
    return format_hotp_value(hotp_value(secret, int(time.time()) // STEP + steps))


def wrong_code(secret: str) -> str:
    right = {current_code(secret, steps) for steps in range(-6, 7)}
    return next(code for code in ("000000", "111111", "222222") if code not in right)


def get_secret(page: Any) -> str:
    """Find the secret on the page that sets up an app."""
    match = re.search(r'class="secret">([A-Z2-7]+)<', page.text)
    assert match
    return match[1]
