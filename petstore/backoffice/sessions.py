"""Session expiry for staff: SESSION_IDLE_SECONDS without a request, SESSION_COOKIE_AGE after signing in.

The server enforces both; the cookie itself lasts until the browser closes.
"""

import time
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY, logout
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.db import SessionStore
from django.db import Error, close_old_connections
from django.dispatch import receiver
from django.http import HttpRequest
from django.http.cookie import parse_cookie

STARTED, SEEN = "session started", "session last seen"  # Unix times, in seconds.
SEEN_EVERY = 60  # Seconds between writes of SEEN.


def has_expired(session: SessionBase, now: float) -> bool:
    """Whether a session is over. One without a start time is."""
    started, seen = session.get(STARTED, 0), session.get(SEEN, 0)
    too_old: bool = now - started >= settings.SESSION_COOKIE_AGE
    idle: bool = now - seen >= settings.SESSION_IDLE_SECONDS
    return too_old or idle


def is_signed_in(cookies: str) -> bool:
    """Whether a Cookie header names a valid session; False if the database is unavailable."""
    close_old_connections()
    try:
        session = SessionStore(parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME))
        return SESSION_KEY in session and not has_expired(session, time.time())
    except Error:
        return False


def touch(session: SessionBase, now: float) -> None:
    if now - session.get(SEEN, 0) >= SEEN_EVERY:
        session[SEEN] = now


@receiver(user_logged_in, dispatch_uid="start of sessions")
def start_session(request: HttpRequest | None, **kwargs: Any) -> None:
    session: SessionBase | None = getattr(request, "session", None)
    if session is not None:
        session[STARTED] = session[SEEN] = time.time()


def log_out_if_expired(request: HttpRequest) -> None:
    if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_authenticated:
        now = time.time()
        if has_expired(request.session, now):
            logout(request)
        else:
            touch(request.session, now)
