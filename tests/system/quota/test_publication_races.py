"""Concurrent changes of keys, accounts and plans, and changes outside a transaction (D19, D27)."""

import time

import pytest
from accounts.quota.redis_store import RedisQuotaStore
from django.db import DatabaseError, transaction
from django.db.models import Model
from django.utils import timezone

from accounts.models import Account, ApiKey, KeyStanding, Plan, PlanCode
from accounts.quota import publication
from accounts.quota.bans import Ban
from accounts.quota.limits import MINUTE
from accounts.usage.batch import write_bans
from tests.conftest import COMMITTED, OPERATOR
from tests.support.concurrency import before_commit
from tests.support.quota import Sender
from tests.support.servers import RedisServer
from tests.support.skips import NEEDS_POSTGRESQL

pytestmark = COMMITTED


@pytest.fixture
def globex(redis: RedisServer, monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Sender:
    """An account on the Free plan, in transactions that commit."""
    redis.client.flushall()
    store = RedisQuotaStore(redis.url)
    monkeypatch.setattr("accounts.quota.store.redis", store)
    sender = Sender(per_minute=5, per_day=100)
    sender.account.assign(PlanCode.FREE)
    return sender


def change_minute_limit(code: PlanCode, per_minute: int) -> None:
    """Change the minute limit of a plan."""
    plan = Plan.objects.get(pk=code)
    plan.per_minute = per_minute
    plan.save()


@NEEDS_POSTGRESQL
def test_ban_that_is_lifted_while_another_process_records_it_stays_lifted(globex: Sender) -> None:
    (key,) = globex.keys
    started_at = time.time_ns() // 1000

    @transaction.atomic
    def record() -> None:
        write_bans([Ban(key.pk, started_at, started_at + 5 * MINUTE, next_level=1, rejections=30)])

    record()
    with before_commit(record):
        key.unban(reason="Fixed.", by=OPERATOR)
    assert ApiKey.objects.get(pk=key.pk).get_ban_end(timezone.now()) is None


@NEEDS_POSTGRESQL
def test_key_issued_while_its_plan_changes_has_the_new_limits(globex: Sender) -> None:
    with before_commit(globex.add_key):
        change_minute_limit(PlanCode.FREE, 61)
    assert [globex.send(key).windows[0].limit for key in range(2)] == [61, 61]


@NEEDS_POSTGRESQL
def test_account_that_moves_to_a_changing_plan_has_the_new_limits(globex: Sender) -> None:
    with before_commit(lambda: globex.account.assign(PlanCode.PRO)):
        change_minute_limit(PlanCode.PRO, 61)
    assert globex.send().windows[0].limit == 61


@NEEDS_POSTGRESQL
def test_key_issued_while_its_account_moves_has_the_new_limits(globex: Sender) -> None:
    with before_commit(globex.add_key):
        Account.objects.get(pk=globex.account.pk).assign(PlanCode.ENTERPRISE, 7, 100)
    assert [globex.send(key).windows[0].limit for key in range(2)] == [7, 7]


@NEEDS_POSTGRESQL
def test_plan_that_changes_while_a_key_is_issued_gives_it_the_new_limits(globex: Sender) -> None:
    with before_commit(lambda: change_minute_limit(PlanCode.FREE, 61)):
        globex.add_key()
    assert [globex.send(key).windows[0].limit for key in range(2)] == [61, 61]


@NEEDS_POSTGRESQL
def test_plan_that_changes_while_an_account_moves_to_it_gives_it_the_new_limits(globex: Sender) -> None:
    with before_commit(lambda: change_minute_limit(PlanCode.PRO, 61)):
        globex.account.assign(PlanCode.PRO)
    assert globex.send().windows[0].limit == 61


@pytest.mark.parametrize(
    ("model", "field"),
    [(Plan, "per_day"), (Account, "name"), (ApiKey, "name"), (KeyStanding, "strikes")],
)
def test_change_without_a_publication_is_not_saved(
    globex: Sender, monkeypatch: pytest.MonkeyPatch, model: type[Model], field: str
) -> None:
    KeyStanding.objects.create(key=globex.keys[0])
    rows = model._base_manager.order_by("-pk")  # The first plan has no limits to change.
    before = list(rows.values())
    row = rows[0]
    setattr(row, field, 77)
    monkeypatch.setattr(publication, "INCREMENT_VERSION", "This is not SQL: {}")
    with pytest.raises(DatabaseError):
        row.save()
    assert list(rows.values()) == before
