"""Demo history is consistent, deterministic, and separate from real customers."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

import pytest
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Sum
from django.utils import timezone

from accounts.demo import Orders, add_history
from accounts.models import (
    EPOCH,
    Account,
    ApiKey,
    DailyUsage,
    OperationUsage,
    PlanCode,
    Rejection,
)
from accounts.usage import reports
from inventory.models import Order, OrderEvent, OrderStatus, Pet, PetEvent
from petstore.audit.models import AuditEntry
from tests.support.commands import get_error, run

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 15, 30, tzinfo=UTC)


seed = partial(run, "seed_demo")


def order_nothing(accounts: list[Account]) -> Orders:
    return Counter()


def test_keys_that_were_used_today_have_usage_today_just_after_midnight() -> None:
    now = datetime(2026, 11, 29, 0, 0, 30, tzinfo=UTC)
    add_history(Random(1), now, 30, 10, order_nothing)
    used_today = ApiKey.objects.filter(last_used_at__date=now.date()).values_list("pk", flat=True)
    assert set(used_today) == set(DailyUsage.objects.filter(day=now).values_list("key", flat=True))
    assert not Rejection.objects.filter(rejected_at__gt=now).exists()


def test_year_fills_the_statistics_of_the_back_office() -> None:
    assert "Added 40 accounts with 365 days" in seed("--year")
    today = timezone.now().date()
    by_plan = reports.get_daily_usage_by_plan()
    assert [plan for plan, days in by_plan.items() if all(day.admitted for day in days)] == [
        PlanCode.FREE, PlanCode.PRO, PlanCode.BUSINESS,
    ]  # fmt: skip
    (banned,) = reports.find_banned_keys()[1]
    assert "Banned for 6 hours" in getattr(banned, "ban_reason")  # noqa: B009  An annotation.
    expiring = reports.find_expiring_keys()
    assert 0 < expiring.in_7_days < expiring.in_30_days
    assert {key.get_state(timezone.now()) for key in ApiKey.objects.all()} == {"active", "expired"}
    assert DailyUsage.objects.filter(day=today - timedelta(days=360)).exists()
    assert {rejection.reason for rejection in Rejection.objects.all()} == {
        Rejection.Reason.MINUTE, Rejection.Reason.DAY,
    }  # fmt: skip
    assert {order.status for order in Order.objects.all()} == set(OrderStatus.values)
    assert Order.objects.filter(status=OrderStatus.APPROVED).exclude(ship_date=None).exists()


def test_orders_are_consistent_with_their_pets() -> None:
    seed("--history-days", "60", "--accounts", "12")
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


def test_all_pages_agree_about_usage_and_nothing_is_in_the_future() -> None:
    seed("--history-days", "60", "--accounts", "12")
    now, days = timezone.now(), settings.REJECTION_RETENTION_DAYS
    for events in (OrderEvent, PetEvent, AuditEntry):
        assert not events._default_manager.filter(at__gt=now).exists()
    assert not Rejection.objects.filter(rejected_at__gt=now).exists()
    assert not DailyUsage.objects.filter(day__lt=F("key__created_at__date")).exists()
    for account in Account.objects.all():
        usage = reports.get_daily_usage(days, key__account=account.pk)
        assert account.get_request_count(now.date()) == usage[-1].admitted <= account.limits.per_day
        for day in usage:
            logged = account.rejections.filter(rejected_at__date=day.day)
            assert day.rejected == logged.count() == logged.filter(key=account.keys.earliest("pk")).count()
        by_day = account.operation_usage.filter(hours=OperationUsage.DAY)
        assert sum(row.requests for row in by_day.filter(status=201)) == account.orders.count()
        total = sum(
            day.admitted + day.rejected for day in reports.get_daily_usage(60, key__account=account.pk)
        )
        assert sum(row.requests for row in by_day) == total
        recent = account.operation_usage.filter(start__gte=((now.date() - EPOCH).days - 1) * 24)
        by_length = recent.values_list("hours").annotate(Sum("requests")).order_by("hours")
        assert len({requests for _, requests in by_length}) == 1


def test_history_is_deterministic() -> None:
    def snapshot() -> list[object]:
        with transaction.atomic():
            add_history(Random("a"), NOW, 14, 8, order_nothing)
            rows: list[object] = list(Account.objects.order_by("pk").values_list("name", "created_at"))
            rows += ApiKey.objects.order_by("pk").values_list("name", "created_at", "expires_at")
            rows += DailyUsage.objects.order_by("pk").values_list("day", "admitted", "rejected")
            rows += Rejection.objects.order_by("pk").values_list("rejected_at", "reason")
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


def test_customers_that_another_run_has_added_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def collide(*args: object) -> Orders:
        raise IntegrityError

    monkeypatch.setattr("inventory.management.commands.seed_demo.add_history", collide)
    assert "No customers were added" in get_error("seed_demo", "--pets", "0", "--year")
