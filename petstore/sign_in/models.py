"""The tables of used one-time codes and of attempts to sign in, and ended sessions."""

import hashlib
import time

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db import connection, models, transaction
from django.db.models import Exists, OuterRef, QuerySet

COUNT = """
INSERT INTO sign_in_attemptcounter AS c (name, value, expires) VALUES (%s, 1, %s)
ON CONFLICT (name) DO UPDATE SET
    value = CASE WHEN c.expires > %s THEN c.value + 1 ELSE 1 END,
    expires = CASE WHEN c.expires > %s THEN c.expires ELSE excluded.expires END
RETURNING value, expires
"""


class CacheEntry(models.Model):
    """A row of `django.core.cache.backends.db.DatabaseCache`, which determines the columns."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "cache_entries"
        default_permissions = ()

    def __str__(self) -> str:
        return self.cache_key


class AttemptCounter(models.Model):
    """The number of attempts in a window, which the first one starts, by a hash of what is limited."""

    name = models.CharField(max_length=255, primary_key=True)
    value = models.BigIntegerField()
    expires = models.FloatField(db_index=True)  # In seconds since the epoch.

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.name

    @classmethod
    def count(cls, subject: str, seconds: int) -> tuple[int, float]:
        """Count an attempt in one statement. Returns their number, and the seconds until the window ends.

        Raises RuntimeError in a transaction, because its rollback would undo the count.
        """
        name, now = hashlib.sha256(subject.encode()).hexdigest(), time.time()
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            cursor.execute(COUNT, (name, now + seconds, now, now))
            value, expires = cursor.fetchone()
        return value, expires - now


def find_ended_sessions() -> QuerySet[UserSession]:
    """Select entries of users' lists of sessions whose session no longer exists."""
    session = Session.objects.filter(session_key=OuterRef("session_key"))
    ended: QuerySet[UserSession] = UserSession.objects.filter(~Exists(session))
    return ended
