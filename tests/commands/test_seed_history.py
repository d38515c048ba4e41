"""Demo history is consistent, deterministic, and separate from real customers."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.db.models import F, Sum
from django.utils import timezone

from accounts.demo import Orders, add_history
from accounts.models import (
    EPOCH,
    Account,
    ApiKey,
    DailyUsage,
    DeprecatedUse,
    MinuteHistogram,
    OperationUsage,
    Plan,
    PlanCode,
    Rejection,
)
from accounts.quota.limits import Limits
from accounts.usage import reports
from inventory.models import Order, OrderEvent, OrderStatus, Pet, PetEvent
from petstore.audit.models import AuditEntry
from tests.support.commands import get_error, run

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 15, 30, tzinfo=UTC)
REASONS = {Rejection.Reason.MINUTE, Rejection.Reason.DAY, Rejection.Reason.BAN}


seed = partial(run, "seed_demo")


def order_nothing(accounts: list[Account]) -> Orders:
    return Counter()


def test_keys_that_were_used_today_have_usage_today_just_after_midnight() -> None:
    now = datetime(2026, 11, 29, 0, 0, 30, tzinfo=UTC)
    add_history(Random(1), now, 30, 10, order_nothing)
    used_today = ApiKey.objects.filter(last_used_at__date=now.date()).values_list("pk", flat=True)
    assert set(used_today) == set(DailyUsage.objects.filter(day=now).values_list("key", flat=True))


def test_year_fills_all_statistics_of_the_back_office() -> None:
    assert "Added 40 accounts with 365 days" in seed("--year")
    today = timezone.now().date()
    assert {account.plan_id for account in Account.objects.all()} == set(PlanCode.values)
    for plan, days in reports.get_daily_usage_by_plan().items():
        assert all(day.admitted > 0 or day.day == today for day in days), plan
    assert reports.find_banned_keys()[0] == 3
    for key in reports.find_banned_keys()[1]:
        first_ban = AuditEntry.objects.for_object(key).filter(action="banned").order_by("at")[0]
        assert "5 minutes" in first_ban.reason
    assert {entry.actor_name for entry in AuditEntry.objects.all()} == {"the service"}
    used_today = set(ApiKey.objects.filter(last_used_at__date=today).values_list("pk", flat=True))
    assert used_today == set(DailyUsage.objects.filter(day=today).values_list("key", flat=True))
    expiring = reports.find_expiring_keys()
    assert 0 < expiring.in_7_days < expiring.in_30_days
    assert {getattr(key, "replaced", None) for key in expiring.keys} == {True, False}
    states = {key.get_state(timezone.now()) for key in ApiKey.objects.all()}
    assert states == {"active", "expired", "revoked"}
    assert len(reports.find_deprecated_callers()) >= 3
    assert DailyUsage.objects.filter(day=today - timedelta(days=360)).exists()
    assert {rejection.reason for rejection in Rejection.objects.all()} == REASONS
    free = reports.simulate_limits(Plan.objects.get(pk=PlanCode.FREE), Limits(30, 500))
    assert free.other.total > free.current.total > 0
    assert {order.status for order in Order.objects.all()} == set(OrderStatus.values)
    assert Order.objects.filter(status=OrderStatus.APPROVED).exclude(ship_date=None).exists()


def test_history_is_consistent() -> None:
    seed("--history-days", "60", "--accounts", "12")
    now = timezone.now()
    for order in Order.objects.prefetch_related("events", "pet__events"):
        steps = sorted(order.events.all(), key=lambda event: event.pk)
        assert steps[0].to_status == OrderStatus.PLACED
        assert [step.from_status for step in steps[1:]] == [step.to_status for step in steps[:-1]]
        assert [step.at for step in steps] == sorted(step.at for step in steps)
        assert (steps[-1].to_status, order.created_at) == (order.status, steps[0].at)
        assert max(order.pet.events.all(), key=lambda event: event.pk).to_status == order.pet.status
        assert order.pet.created_at < order.created_at
        if order.status == OrderStatus.DELIVERED:
            assert order.ship_date is not None
            assert steps[-2].at <= order.ship_date <= steps[-1].at
    placed = list(Order.objects.order_by("pk").values_list("created_at", flat=True))
    assert placed == sorted(placed)
    assert not Order.objects.filter(created_at__lt=F("account__created_at")).exists()
    for events in (OrderEvent, PetEvent, AuditEntry):
        assert not events._default_manager.filter(at__gt=now).exists()
    assert not Rejection.objects.filter(rejected_at__gt=now).exists()
    assert not Rejection.objects.exclude(key__account=F("account")).exists()
    assert not DailyUsage.objects.filter(day__lt=F("key__created_at__date")).exists()
    sent = DailyUsage.objects.filter(day__gt=now.date() - timedelta(days=30)).aggregate(
        sent=Sum("admitted")
    )
    minutes = [load.minutes.items() for load in MinuteHistogram.objects.all()]
    loads = sum(int(requests) * times for load in minutes for requests, times in load)
    assert sent["sent"] * 0.9 < loads < sent["sent"] * 1.1
    for account in Account.objects.all():
        assert account.created_at > now - timedelta(days=61)
        today = reports.get_daily_usage(days=1, today=now.date(), key__account=account.pk)[0]
        assert account.get_request_count(now.date()) == today.admitted <= account.limits.per_day


def test_history_has_the_same_rejections_on_every_page() -> None:
    """The charts, the keys, the rejection log and the what-if page agree about the same days."""
    seed("--pets", "0", "--history-days", "30", "--accounts", "20")
    now, days = timezone.now(), settings.REJECTION_RETENTION_DAYS
    for account in Account.objects.all():
        per_day = reports.get_daily_usage(days, key__account=account.pk)
        total = sum(day.rejected for day in per_day)
        logged = Rejection.objects.filter(account=account)
        assert [logged.filter(rejected_at__date=day.day).count() for day in per_day] == [
            day.rejected for day in per_day
        ]
        for key in account.keys.all():
            by_key = sum(day.rejected for day in reports.get_daily_usage(days, key=key.pk))
            assert logged.filter(key=key).count() == by_key
        by_reason = Counter(logged.values_list("reason", flat=True))
        simulation = reports.simulate_limits(account, account.limits, days=days)
        assert (simulation.other.by_minute, simulation.other.by_day) == (
            by_reason[Rejection.Reason.MINUTE],
            by_reason[Rejection.Reason.DAY],
        )
        assert by_reason.total() == total == simulation.current.total + by_reason[Rejection.Reason.BAN]
        admitted = sum(day.admitted for day in per_day)
        assert simulation.requests == admitted + simulation.current.total
    for key in reports.find_banned_keys()[1]:
        ban = AuditEntry.objects.filter(action="banned", object_id=str(key.pk)).latest("at")
        assert (
            f" {key.rejections.filter(reason=Rejection.Reason.MINUTE, rejected_at__lt=ban.at).count()} "
            in ban.reason
        )
        assert key.last_used_at is not None
        assert now - timedelta(minutes=3) < key.last_used_at <= now


def test_usage_by_operation_agrees_with_what_is_listed() -> None:
    seed("--history-days", "60", "--accounts", "12")
    today = (timezone.now().date() - EPOCH).days

    def count(account: Account, since: int, **filters: Any) -> Counter[str]:
        rows = account.operation_usage.filter(start__gte=24 * since, **filters).order_by()
        return Counter(dict(rows.values_list("operation").annotate(Sum("requests"))))

    for account in Account.objects.all():
        by_day = partial(count, account, hours=OperationUsage.DAY)
        assert by_day(0, status=201) == Counter("POST /v1/store/orders" for _ in account.orders.all())
        logged = Counter(f"{rejection.method} {rejection.route}" for rejection in account.rejections.all())
        assert by_day(today - settings.REJECTION_RETENTION_DAYS + 1, status=429) == logged
        assert by_day(0, status=429).keys() <= by_day(0, status=200).keys()
        deprecated = sum(use.admitted for use in account.deprecated_calls.all())
        assert by_day(0, operation="GET /v1/pets/{petId}").total() == deprecated
        usage = DailyUsage.objects.filter(key__account=account)
        assert by_day(0).total() == sum(day.admitted + day.rejected for day in usage)
        assert by_day(today - 1) == count(account, today - 1, hours=OperationUsage.HOUR)
    assert Order.objects.count() > DeprecatedUse.objects.count() > 0


def test_history_is_deterministic() -> None:
    def snapshot() -> list[object]:
        with transaction.atomic():
            add_history(Random("a"), NOW, 14, 8, order_nothing)
            rows: list[object] = list(Account.objects.order_by("pk").values_list("name", flat=True))
            rows += ApiKey.objects.order_by("pk").values_list(
                "public_id", "name", "created_at", "revoked_at"
            )
            rows += DailyUsage.objects.order_by("pk").values_list("day", "admitted", "rejected")
            rows += DeprecatedUse.objects.order_by("pk").values_list("day", "admitted", "last_call_at")
            rows += Rejection.objects.order_by("pk").values_list("request_id", "rejected_at", "reason")
            rows += [load.minutes for load in MinuteHistogram.objects.order_by("pk")]
            transaction.set_rollback(True)
        return rows

    assert snapshot() == snapshot()


def test_history_is_not_added_beside_customers_without_force() -> None:
    # The account of quickstart is not a customer.
    Account.objects.create(name="Demo", plan_id=PlanCode.BUSINESS)
    assert "Added 2 accounts" in seed("--pets", "0", "--history-days", "1", "--accounts", "2")
    assert "Customers already exist" in get_error("seed_demo", "--year")
    for options in (("--history-days", "-1"), ("--history-days", "731"), ("--year", "--accounts", "0")):
        assert "--history-days must be 0 to 730" in get_error("seed_demo", *options)
    assert not Pet.objects.exists()
    assert "Added 4 accounts" in seed("--history-days", "3", "--accounts", "4", "--force")
    assert Account.objects.count() == 7
