"""Session expiry for staff and customers.

A session ends SESSION_IDLE_SECONDS after its last request, or SESSION_COOKIE_AGE after signing in if that
is earlier. The server enforces both limits. The cookie itself lasts until the browser is closed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model, logout
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.db import SessionStore
from django.db import Error, close_old_connections
from django.dispatch import receiver
from django.http import HttpRequest
from django.http.cookie import parse_cookie

if TYPE_CHECKING:
    from django.contrib.auth.models import User

STAFF_PAGES, CUSTOMER_PAGES = "/admin/", "/account/"
MAX_SESSIONS = 20  # Per user.
STARTED_AT, LAST_SEEN_AT = "session started", "session last seen"  # Unix times, in seconds.
TOUCH_INTERVAL = 60  # Seconds between writes of LAST_SEEN_AT.


def has_expired(session: SessionBase, now: float) -> bool:
    """Check both limits. A session without a start time counts as expired."""
    age, idle_time = now - session.get(STARTED_AT, 0), now - session.get(LAST_SEEN_AT, 0)
    return bool(age >= settings.SESSION_COOKIE_AGE or idle_time >= settings.SESSION_IDLE_SECONDS)


def find_session_user(cookies: str) -> User | None:
    """Return the user of the session in a Cookie header; None if it is invalid, or without a database."""
    close_old_connections()
    try:
        session = SessionStore(parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME))
        if SESSION_KEY not in session or has_expired(session, time.time()):
            return None
        user = get_user_model().objects.filter(pk=session[SESSION_KEY], is_active=True).first()
        hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()] if user else []
        return user if session.get(HASH_SESSION_KEY) in hashes else None
    except Error:
        return None


def touch(session: SessionBase, now: float) -> None:
    if now - session.get(LAST_SEEN_AT, 0) >= TOUCH_INTERVAL:
        session[LAST_SEEN_AT] = now


@receiver(user_logged_in, dispatch_uid="petstore.start_session")
def start_session(request: HttpRequest | None, **kwargs: Any) -> None:
    session: SessionBase | None = getattr(request, "session", None)
    if session is not None:
        session[STARTED_AT] = session[LAST_SEEN_AT] = time.time()


def log_out_if_expired(request: HttpRequest) -> None:
    """Log out if the session has expired, else record that it is in use."""
    if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_authenticated:
        now = time.time()
        if has_expired(request.session, now):
            logout(request)
        else:
            touch(request.session, now)


def end_oldest_sessions(user: User) -> None:
    """Leave the newest MAX_SESSIONS."""
    for session in user.usersession_set.order_by("-pk")[MAX_SESSIONS:]:
        session.end()
