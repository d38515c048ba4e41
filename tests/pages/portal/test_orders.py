"""Members view the orders of their account and cancel those that are not approved."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import Account, Event, OutboxEvent, PlanCode
from inventory import order_pages
from inventory.models import Order, OrderStatus, Pet
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR

STAFF_TEXT = "secret-of-staff"


def url(account: Account, order: Any = "", page: str = "") -> str:
    return f"/account/{account.public_id}/orders/{f'{order.pk}/' if order else ''}{page}"


@pytest.fixture
def foreign(pet: Pet) -> Order:
    """An order of another account."""
    other = Account.objects.create(name="Other", plan_id=PlanCode.FREE)
    new = Pet.objects.create(name="Tom", category=pet.category)
    return Order.objects.place(account_id=other.pk, pet_id=new.pk, by="key x")


def place(account: Account, pet: Pet) -> Order:
    new = Pet.objects.create(name="Rex", category=pet.category)
    return Order.objects.place(account_id=account.pk, pet_id=new.pk, by="tests")


@pytest.mark.usefixtures("foreign")
def test_list_has_only_own_orders_page_by_page(
    kim: Client, account: Account, pet: Pet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_pages, "ORDERS_PER_PAGE", 2)
    orders = [place(account, pet) for _ in range(3)][::-1]
    page = kim.get(url(account))
    assert page.context["orders"] == orders[:2]
    assert f"?before={orders[1].pk}" in page.text
    page = kim.get(url(account), {"before": orders[1].pk})
    assert (page.context["orders"], page.context["next"]) == (orders[2:], None)
    for bad in ({"before": "x"}, {"before": "9" * 30}, {"before": "0"}, {"stage": "x"}):
        assert kim.get(url(account), bad).status_code == 200


def test_list_is_filtered_by_the_stages_that_it_shows(kim: Client, account: Account, pet: Pet) -> None:
    def approved(ship_date: datetime | None = None) -> Order:
        row = place(account, pet)
        row.approve(by="staff boss")
        if ship_date:
            row.ship(by="staff boss", ship_date=ship_date)
        return row

    now = timezone.now()
    delivered, returned = approved(), approved()
    for row in (delivered, returned):
        row.deliver(by="staff boss")
    returned.return_pet(by="staff boss", reason=STAFF_TEXT)
    cancelled = place(account, pet)
    cancelled.cancel(by="staff boss")
    stages = {
        "Placed": place(account, pet), "Approved": approved(), "Scheduled": approved(now + timedelta(1)),
        "Shipped": approved(now), "Delivered": delivered, "Cancelled": cancelled, "Returned": returned,
    }  # fmt: skip
    offered = re.findall(r'<a href="\?stage=(\w+)">(\w+)</a>', kim.get(url(account)).text)
    assert [label for _, label in offered] == list(stages)
    for stage, label in offered:
        page = kim.get(url(account), {"stage": stage})
        assert page.context["orders"] == [stages[label]]
        assert f"<td>{label}</td>" in page.text


def test_order_shows_its_history_without_staff(kim: Client, account: Account, order: Order) -> None:
    order.approve(by="staff boss", reason=STAFF_TEXT)
    order.ship(by="staff boss")
    order.deliver(by="staff boss", reason=STAFF_TEXT)
    order.return_pet(by="staff boss", reason=STAFF_TEXT)
    page = kim.get(url(account, order))
    assert [text for _, text, _ in page.context["history"]] == [
        "Returned", "Delivered", "Ship date set", "Approved", "Placed",
    ]  # fmt: skip
    assert {actor for *_, actor in page.context["history"]} == {"Pet Store"}
    for text in (STAFF_TEXT, "boss"):
        assert text not in page.text


def test_developer_cancels_an_order(kim: Client, account: Account, order: Order) -> None:
    assert f"Cancel order {order.pk}" in kim.get(url(account, order)).text
    page = kim.post(url(account, order, "cancel/"), follow=True)
    assert f"Order {order.pk} is cancelled." in page.text
    order.refresh_from_db()
    order.pet.refresh_from_db()
    assert (order.status, order.pet.status) == ("cancelled", "available")
    assert page.context["history"][0][1:] == ("Cancelled", "member kim")
    entry = AuditEntry.objects.get(model="inventory.order")
    assert (entry.actor_name, entry.action, entry.after["status"]) == ("kim", "cancelled", "cancelled")
    assert OutboxEvent.objects.filter(type="order.cancelled").count() + Event.objects.count() == 1


@pytest.mark.parametrize("change", [Order.approve, Order.cancel])
def test_order_that_changed_in_the_meantime_is_not_cancelled(
    kim: Client, account: Account, order: Order, change: Callable[..., None]
) -> None:
    change(order, by="staff boss")
    before = Order.objects.values().get()
    page = kim.post(url(account, order, "cancel/"), follow=True)
    assert ("is cancelled." in page.text) == (change == Order.cancel)
    assert Order.objects.values().get() == before
    assert order.events.count() == 2


def test_suspended_account_views_but_does_not_cancel(kim: Client, account: Account, order: Order) -> None:
    account.suspend(reason=STAFF_TEXT, by=OPERATOR)
    assert "Cancel order" not in kim.get(url(account, order)).text
    page = kim.post(url(account, order, "cancel/"), follow=True)
    assert "not possible while Acme Pets is suspended" in page.text
    assert STAFF_TEXT not in page.text
    assert Order.objects.get().status == OrderStatus.PLACED
