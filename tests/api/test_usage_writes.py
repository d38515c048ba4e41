"""What is written behind: of thousands of keys by a few statements, and nothing twice."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from accounts.models import Account, ApiKey, DailyUsage, DeprecatedUse, MinuteLoad, PlanCode, QuotaCounter
from accounts.quota.limits import DAY, MINUTE, to_datetime
from accounts.usage import batch
from accounts.usage.batch import Batch, write_digests
from tests.conftest import COMMITTED
from tests.support.concurrency import other_connection, run_concurrently
from tests.support.quota import NOON
from tests.support.skips import NEEDS_POSTGRESQL

TODAY = NOON // DAY
MANY = 3_000


def many_keys(number: int) -> list[ApiKey]:
    """Make so many keys, each with an account of its own."""
    names = [f"{one:08}" for one in range(number)]
    accounts = Account.objects.bulk_create(
        Account(name=name, public_id=name, plan_id=PlanCode.FREE) for name in names
    )
    return ApiKey.objects.bulk_create(
        ApiKey(
            account=account,
            public_id=f"{account.name}abcdef",
            mode="live",
            pepper_number=1,
            scopes="pets:read",
        )
        for account in accounts
    )


def used(some: list[ApiKey], now: int = NOON) -> Batch:
    """Return two requests of each: an admitted one, deprecated and counted by Redis, and a refusal."""
    calls = [(key.account_id, "getPet", now // DAY) for key in some]
    return Batch(
        requests=Counter((key.pk, now // DAY) for key in some),
        rejections=Counter((key.pk, now // DAY) for key in some),
        last_used={key.pk: now for key in some},
        in_redis=Counter((key.account_id, now // DAY) for key in some),
        minutes=Counter((key.account_id, now // MINUTE) for key in some),
        deprecated_calls=Counter(calls),
        last_deprecated_calls=dict.fromkeys(calls, now),
    )


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    """Yield what the database is told; a statement that is run for each of many rows counts as many."""
    told: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        told.extend([sql] * (len(params) if many else 1))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield told


def test_thousands_of_keys_take_a_few_statements(db: None) -> None:
    some = many_keys(MANY)
    with counted_statements() as told:
        used(some).write(NOON)
    assert len(told) <= 5
    assert DailyUsage.objects.filter(requests=1, refusals=1).count() == MANY
    assert QuotaCounter.objects.filter(day=TODAY, day_used=1).count() == MANY
    assert MinuteLoad.objects.filter(requests=1).count() == MANY
    assert ApiKey.objects.filter(last_used_at=to_datetime(NOON)).count() == MANY


def test_a_statement_takes_a_bounded_number_of_rows(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "BATCH_SIZE", 2)
    some = many_keys(5)
    with counted_statements() as told:
        used(some).write(NOON)
    assert len(told) == 5 * 3
    assert DailyUsage.objects.filter(requests=1, refusals=1).count() == 5


def test_writes_add_up(db: None) -> None:
    some = many_keys(3)
    used(some).write(NOON)
    used(some[1:]).write(NOON)
    rows = DailyUsage.objects.order_by("key_id").values_list("requests", "refusals")
    assert list(rows) == [(1, 1), (2, 2), (2, 2)]
    assert list(QuotaCounter.objects.order_by("account_id").values_list("day_used", flat=True)) == [1, 2, 2]
    assert list(MinuteLoad.objects.order_by("account_id").values_list("requests", flat=True)) == [1, 2, 2]
    assert [use.requests for key in some for use in key.account.deprecated_uses.all()] == [1, 2, 2]


def test_usage_of_deleted_keys_and_accounts_is_dropped(db: None) -> None:
    without_key, without_account, stays = many_keys(3)
    batch = used([without_key, without_account, stays])
    ApiKey.objects.filter(pk__in=[without_key.pk, without_account.pk]).delete()
    Account.objects.filter(pk=without_account.account_id).delete()
    batch.write(NOON)
    assert DailyUsage.objects.get().key == stays
    there = {without_key.account_id, stays.account_id}
    assert {counter.account_id for counter in QuotaCounter.objects.all()} == there
    assert {load.account_id for load in MinuteLoad.objects.all()} == there
    assert {use.account_id for use in DeprecatedUse.objects.all()} == there


@pytest.mark.parametrize("known", [None, TODAY - 2, TODAY - 1, TODAY, TODAY + 1])
def test_batch_across_midnight_keeps_the_later_day(db: None, known: int | None) -> None:
    (key,) = many_keys(1)
    if known is not None:
        facts = {"minute_ends": 0, "minute_used": 0, "seen_at": 0, "admitted": True}
        QuotaCounter.objects.create(account=key.account, day=known, day_used=10, day_here=4, **facts)
    counts = {(key.account_id, TODAY): 2, (key.account_id, TODAY - 1): 3}
    Batch(in_redis=Counter(counts)).write(NOON)
    quota = QuotaCounter.objects.get()
    if known is None or known < TODAY:
        assert (quota.day, quota.day_used, quota.day_here) == (TODAY, 2, 0)
    else:
        assert (quota.day, quota.day_used, quota.day_here) == (known, 10 + 2 * (known == TODAY), 4)


def test_last_uses_of_many_keys_are_each_written_at_most_once_a_minute(db: None) -> None:
    new, just_now, earlier = many_keys(3)
    for key, seconds in ((just_now, 59), (earlier, 60)):
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=to_datetime(NOON) - timedelta(seconds=seconds))
    used([new, just_now, earlier]).write(NOON)
    assert list(ApiKey.objects.order_by("pk").values_list("last_used_at", flat=True)) == [
        to_datetime(NOON),
        to_datetime(NOON) - timedelta(seconds=59),
        to_datetime(NOON),
    ]


@COMMITTED
@NEEDS_POSTGRESQL
def test_concurrent_writes_of_the_same_keys_do_not_deadlock() -> None:
    some = many_keys(1_000)
    write = transaction.atomic(lambda batch: batch.write(NOON))
    for number in range(5):
        now = NOON + number * MINUTE
        run_concurrently(partial(write, used(some, now)), partial(write, used(some[::-1], now)))
    assert set(DailyUsage.objects.values_list("requests", flat=True)) == {2 * 5}


@COMMITTED
@NEEDS_POSTGRESQL
def test_rehashing_holds_one_row_lock_at_a_time() -> None:
    first, second = many_keys(2)
    one_at_a_time = ApiKey.objects.select_for_update(nowait=True)
    digests = {key.pk: (key.pepper_number + 1, "0" * 64) for key in (first, second)}
    with other_connection() as begin, transaction.atomic():
        one_at_a_time.get(pk=second.pk)
        begin(lambda: write_digests(digests))
        one_at_a_time.get(pk=first.pk)
    numbers = ApiKey.objects.order_by("pk").values_list("pepper_number", flat=True)
    assert list(numbers) == [first.pepper_number + 1] * 2
