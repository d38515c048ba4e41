"""`manage.py housekeeping` deletes what has expired, and nothing else."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

from accounts.events.sequencing import sequence_all
from accounts.models import Account, Event, EventType, IdempotencyRecord, OutboxEvent
from inventory.models import PetUpload
from petstore.db import batches
from petstore.health.management.commands.housekeeping import TASKS
from petstore.mail.models import QueuedMail
from petstore.sign_in.models import CacheEntry
from tests.conftest import COMMITTED
from tests.support.commands import run_json


def delete_expired() -> Any:
    return run_json("housekeeping")["deleted"]


def create_records(account: Account, age: timedelta) -> None:
    """Create one record of each kind that would expire now if `age` were its lifetime."""
    now = timezone.now()
    name = f"user {age}"
    user = User.objects.create(username=name)
    IdempotencyRecord.objects.create(
        account=account, idempotency_key=name, fingerprint="f", created_at=now - age - timedelta(hours=24)
    )
    Session.objects.create(session_key=name, session_data="", expire_date=now - age)
    PetUpload.objects.create(
        user=user, token=uuid4(), content=b"", created_at=now - age - timedelta(hours=1)
    )
    UserSession.objects.create(user=user, session_key=name, ip="::1", user_agent="")
    CacheEntry.objects.create(cache_key=name, value="", expires=now - age)
    QueuedMail.objects.create(recipient="a@b.example", created_at=now - age - timedelta(days=3))
    OutboxEvent.build(EventType.PET_DELETED, {}).save()
    sequence_all()
    sequenced_at = time.time_ns() // 1000 - int((age + timedelta(days=30)).total_seconds() * 1_000_000)
    Event.objects.filter(pk=Event.objects.latest("pk").pk).update(sequenced_at=sequenced_at)


@pytest.mark.django_db
def test_expired_records_of_every_kind_are_deleted(account: Account) -> None:
    create_records(account, timedelta(minutes=1))
    create_records(account, -timedelta(minutes=1))
    assert delete_expired() == dict.fromkeys(TASKS, 1)
    assert delete_expired() == dict.fromkeys(TASKS, 0)
    left = (IdempotencyRecord, Session, PetUpload, UserSession, CacheEntry, QueuedMail, Event)
    assert [model._default_manager.count() for model in left] == [1] * len(left)


@COMMITTED
def test_concurrent_runs_delete_each_record_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_SIZE", 3)
    expired_at = timezone.now() - timedelta(days=1)
    Session.objects.bulk_create(
        Session(session_key=f"{number}", session_data="", expire_date=expired_at) for number in range(100)
    )

    def run_and_close(_: int) -> Any:
        try:
            return delete_expired()["sessions"]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(run_and_close, range(4))) == 100
    assert not Session.objects.exists()
