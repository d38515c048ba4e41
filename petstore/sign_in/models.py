"""The tables of used one-time codes and of attempts to sign in, and ended sessions."""

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db import models
from django.db.models import Exists, OuterRef, QuerySet


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
    """A row of `petstore.sign_in.cache.CounterCache`."""

    name = models.CharField(max_length=255, primary_key=True)
    value = models.BigIntegerField()
    expires = models.FloatField(db_index=True)  # In seconds since the epoch.

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.name


def find_ended_sessions() -> QuerySet[UserSession]:
    """Select entries of users' lists of sessions whose session no longer exists."""
    session = Session.objects.filter(session_key=OuterRef("session_key"))
    ended: QuerySet[UserSession] = UserSession.objects.filter(~Exists(session))
    return ended
