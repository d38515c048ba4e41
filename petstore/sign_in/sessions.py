"""The store of sessions (SESSION_ENGINE)."""

from allauth.usersessions.models import UserSession
from django.contrib.sessions.backends import db


class SessionStore(db.SessionStore):
    def cycle_key(self) -> None:
        """Also change the key in the user's list of sessions, from which others are ended.

        Django changes it without a signal in a session that was signed with an earlier SECRET_KEY.
        """
        old_key = self.session_key
        super().cycle_key()
        UserSession.objects.filter(session_key=old_key).update(session_key=self.session_key)
