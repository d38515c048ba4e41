"""Plans and the limits of accounts (D27)."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from accounts.models import Account, Plan, PlanCode
from accounts.models.plans import MAX_REQUEST_LIMIT
from tests.conftest import Api

TOO_LARGE = MAX_REQUEST_LIMIT + 1


@pytest.mark.django_db
def test_fresh_database_has_the_contracts_plans_from_the_smallest_to_the_largest() -> None:
    assert [(plan.code, plan.per_minute, plan.per_day) for plan in Plan.objects.all()] == [
        ("free", 60, 1_000),
        ("pro", 300, 10_000),
        ("business", 1_000, 100_000),
        ("enterprise", None, None),
    ]


def test_enterprise_needs_both_limits_from_1_up(account: Account) -> None:
    for numbers in ((), (100,), (None, 100), (0, 100), (100, 0), (TOO_LARGE, 100), (100, TOO_LARGE)):
        with pytest.raises(ValidationError):
            account.assign(PlanCode.ENTERPRISE, *numbers)
    account.refresh_from_db()
    assert account.plan_id == "business"


def test_other_plans_take_no_limits(account: Account) -> None:
    for plan in (PlanCode.FREE, PlanCode.PRO, PlanCode.BUSINESS):
        for numbers in ((100, None), (None, 100)):
            with pytest.raises(ValidationError, match="Only an Enterprise account"):
                account.assign(plan, *numbers)
    with pytest.raises(ValidationError):
        account.assign("gold")  # type: ignore[arg-type]


def test_account_leaving_enterprise_loses_its_limits(account: Account) -> None:
    account.assign(PlanCode.ENTERPRISE, 5_000, 1_000_000)
    account.assign(PlanCode.PRO)
    account.refresh_from_db()
    assert (account.per_minute, account.per_day, account.limits.per_minute) == (None, None, 300)


def test_response_names_the_limit_of_the_plan(account: Account, api: Api) -> None:
    largest = (MAX_REQUEST_LIMIT, MAX_REQUEST_LIMIT)
    for numbers, limit in (((7, 1_000), 7), ((1_000, 7), 7), (largest, MAX_REQUEST_LIMIT)):
        account.assign(PlanCode.ENTERPRISE, *numbers)
        assert api.get("/pets")["X-RateLimit-Limit"] == str(limit)
    account.assign(PlanCode.BUSINESS)
    assert api.get("/pets")["X-RateLimit-Limit"] == "1000"
    Plan.objects.filter(code="business").update(per_minute=17)
    assert api.get("/pets")["X-RateLimit-Limit"] == "17"


@pytest.mark.django_db
def test_database_rejects_an_unknown_or_a_second_plan() -> None:
    for code in ("gold", "", "free"):
        with pytest.raises(IntegrityError), transaction.atomic():
            Plan.objects.bulk_create([Plan(code=code, per_minute=1, per_day=1)])


@pytest.mark.django_db
def test_database_rejects_a_plan_with_invalid_limits() -> None:
    invalid: list[tuple[str, dict[str, Any]]] = [
        ("free", {"per_minute": None}), ("pro", {"per_day": None}),
        ("business", {"per_minute": None, "per_day": None}), ("free", {"per_minute": 0}),
        ("free", {"per_day": -1}), ("enterprise", {"per_minute": 1}), ("enterprise", {"per_day": 1}),
        ("enterprise", {"per_minute": 1, "per_day": 1}),
    ]  # fmt: skip
    for code, values in invalid:
        with pytest.raises(IntegrityError), transaction.atomic():
            Plan.objects.filter(code=code).update(**values)


def test_database_rejects_an_account_with_invalid_values(account: Account) -> None:
    Account.objects.create(name="Big Pets", plan_id="free")
    enterprise = {"plan_id": "enterprise"}
    invalid: list[dict[str, Any]] = [
        enterprise, enterprise | {"per_minute": 1}, enterprise | {"per_day": 1},
        enterprise | {"per_minute": 0, "per_day": 1}, enterprise | {"per_minute": 1, "per_day": -1},
        {"per_minute": 1}, {"per_day": 1}, {"per_minute": 1, "per_day": 1}, {"name": ""},
        {"name": "Big Pets"},
    ]  # fmt: skip
    for values in invalid:
        with pytest.raises(IntegrityError), transaction.atomic():
            Account.objects.filter(pk=account.pk).update(**values)
