"""The store of sessions (SESSION_ENGINE)."""

from allauth.core import context
from allauth.usersessions.models import UserSession
from django.contrib.sessions.backends import db


class SessionStore(db.SessionStore):
    def cycle_key(self) -> None:
        """Also change the key in the user's list of sessions, from which others are ended.

        Django changes the key when it reads a session that was signed with an earlier SECRET_KEY. That
        would sign out another browser whose session django-allauth checks.
        """
        if getattr(context.request, "session", self) is not self:
            return
        old_key = self.session_key
        super().cycle_key()
        UserSession.objects.filter(session_key=old_key).update(session_key=self.session_key)
