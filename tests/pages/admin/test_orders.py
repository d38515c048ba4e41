"""Admin of orders, and manual changes of the status of pets (D15)."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from accounts.models import Account
from inventory import stock
from inventory.admin import status_tabs
from inventory.models import Category, Order, Pet
from petstore.audit.models import AuditEntry
from tests.support.staff import CONFIRMED, list_rows, run_bulk_action

ORDERS = "/admin/inventory/order/"
ACTIONS = {"approve", "ship", "ship_later", "deliver", "reschedule", "cancel", "return_pet"}


@pytest.fixture
def orders(account: Account, category: Category) -> list[Order]:
    """Four orders: placed, approved, delivered and cancelled."""
    orders = []
    for name in ("Max", "Luna", "Coco", "Milo"):
        pet = Pet.objects.create(name=name, category=category)
        orders.append(Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests"))
    for order in orders[1:3]:
        order.approve(by="tests")
    orders[2].deliver(by="tests")
    orders[3].cancel(by="tests")
    return orders


run_action = partial(run_bulk_action, path=ORDERS)


def press_button(staff: Client, verb: str, order: Order, **form_data: Any) -> str:
    """Press a button on the page of an order, or on its confirmation page."""
    return unescape(staff.post(f"{ORDERS}{order.pk}/act/{verb}/", form_data, follow=True).text)


def get_status(order: Order) -> str:
    order.refresh_from_db()
    return order.status


@pytest.mark.parametrize("act", [run_action, press_button], ids=["bulk action", "button"])
def test_delivered_order_sells_pet(staff: Client, order: Order, pet: Pet, act: Callable[..., str]) -> None:
    statuses = ["placed", "approved", "approved", "delivered"]
    assert f"Order {order.pk} is approved." in act(staff, "approve", order)
    assert f"Order {order.pk} is shipped." in act(staff, "ship", order)
    assert f"Order {order.pk} is delivered." in act(staff, "deliver", order, **CONFIRMED)
    order.refresh_from_db()
    pet.refresh_from_db()
    assert (order.status, pet.status) == ("delivered", "sold")
    assert order.ship_date is not None
    assert set(order.events.exclude(by="tests").values_list("by", flat=True)) == {"staff boss"}
    approved, shipped, delivered = AuditEntry.objects.for_object(order).order_by("pk")
    for entry, (before, after) in ((approved, statuses[:2]), (delivered, statuses[2:])):
        assert (entry.before["status"], entry.after["status"]) == (before, after)
    assert "ship_date" in shipped.after
    actions = [approved.action, shipped.action, delivered.action]
    assert actions == ["to_ship", "shipped", "delivered"]  # The stages that they lead to.


LEGAL_ACTIONS = {
    "to_approve": {"approve", "cancel"},
    "to_ship": {"ship", "ship_later", "deliver", "cancel"},
    "scheduled": {"deliver", "reschedule", "cancel"},
    "shipped": {"deliver", "reschedule", "cancel"},
    "delivered": {"return_pet"},
    "cancelled": set(),
}


ACTING_AT_ONCE = {"to_approve": ["approve"], "to_ship": ["ship"], "shipped": ["deliver"]}


def move_to(stage: str, order: Order) -> None:
    if stage not in {"to_approve", "cancelled"}:
        order.approve(by="tests")
    if stage in {"scheduled", "shipped"}:
        order.ship(by="tests", ship_date=timezone.now() + timedelta(days=stage == "scheduled"))
    if stage == "delivered":
        order.deliver(by="tests")
    if stage == "cancelled":
        order.cancel(by="tests")


@pytest.mark.same_on_both
@pytest.mark.parametrize("stage", LEGAL_ACTIONS)
def test_stage_offers_its_actions_and_others_are_skipped(staff: Client, order: Order, stage: str) -> None:
    move_to(stage, order)
    legal = LEGAL_ACTIONS[stage]
    page, tab = staff.get(f"{ORDERS}{order.pk}/change/").text, staff.get(ORDERS, {"stage": stage}).text
    assert {name for name in ACTIONS if f"/act/{name}/" in page} == legal
    assert re.findall(r'formaction="[^"]+/act/(\w+)/', page) == ACTING_AT_ONCE.get(stage, [])
    assert {name for name in ACTIONS if f'name="action" value="{name}"' in tab} == legal
    before = Order.objects.filter(pk=order.pk).values().get()
    assert staff.get(f"{ORDERS}{order.pk}/act/explode/").status_code == 404
    for name in ACTIONS:
        assert staff.get(f"{ORDERS}{order.pk}/act/{name}/").status_code == 200  # Asks for confirmation.
    date = f"{timezone.now():%Y-%m-%dT%H:%M}"
    for name in ACTIONS - legal:
        assert f" Order {order.pk} is " in press_button(staff, name, order, reason="x", ship_date=date)
    staff.post(f"{ORDERS}{order.pk}/change/", {"status": "cancelled", "ship_date": "2026-01-01"})
    assert Order.objects.filter(pk=order.pk).values().get() == before


def test_database_failure_reports_changed_and_unchanged_orders(
    staff: Client, account: Account, category: Category, monkeypatch: pytest.MonkeyPatch
) -> None:
    pets = [Pet.objects.create(name=f"Pet {number}", category=category) for number in range(4)]
    orders = [Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests") for pet in pets]
    record, failing_order = Order.record_change, orders[2]

    def record_or_fail(self: Order, *args: Any, **options: Any) -> None:
        if self == failing_order:
            raise OperationalError("server closed the connection unexpectedly")
        record(self, *args, **options)

    monkeypatch.setattr(Order, "record_change", record_or_fail)
    page = run_action(staff, "approve", *orders)  # The list has the newest first.
    assert f"Order {orders[3].pk} is approved." in page
    failure = f"The database failed at order {failing_order.pk}. Check whether it is approved."
    unchanged = f"(order {orders[1].pk}, order {orders[0].pk})"
    assert f"{failure} Unchanged: 2 other orders {unchanged}. Try again." in page
    page = press_button(staff, "approve", failing_order)
    assert failure in page
    assert "Unchanged" not in page
    assert [get_status(order) for order in orders] == ["placed", "placed", "placed", "approved"]


@pytest.mark.parametrize(("stage", "action"), [("to_ship", "ship_later"), ("shipped", "reschedule")])
def test_order_ships_on_the_chosen_date(staff: Client, order: Order, stage: str, action: str) -> None:
    move_to(stage, order)
    date = (timezone.now() + timedelta(days=3)).replace(second=0, microsecond=0)
    press_button(staff, action, order, ship_date=f"{date:%Y-%m-%dT%H:%M}")
    order.refresh_from_db()
    assert order.ship_date == date
    for invalid in ("", "soon", "0001-01-01T00:00", "9999-12-31T23:59", "2026-13-45T99:99"):
        press_button(staff, action, order, ship_date=invalid)
    order.refresh_from_db()
    assert order.ship_date == date
    for path in (f"{ORDERS}{order.pk}/change/", f"/admin/accounts/account/{order.account_id}/change/"):
        assert "ship date set" in staff.get(path).text.lower()


def test_orders_are_found_by_their_id_their_pet_or_their_account(
    staff: Client, orders: list[Order], account: Account
) -> None:
    assert orders[1] in list_rows(staff, ORDERS, q=str(orders[1].pk))
    assert orders[2] in list_rows(staff, ORDERS, q=str(orders[2].pet_id))
    assert list_rows(staff, ORDERS, q="acme") == orders[::-1]
    assert list_rows(staff, ORDERS, q="unknown buyer") == list_rows(staff, ORDERS, q="9" * 22) == []


def find_tabs(page: str) -> list[tuple[str, ...]]:
    tab = r'<a href="[^"]*"(?: aria-current="(page)")?>([\w ]+?)(?: <span>([\d,+]+)</span>)?</a>'
    return re.findall(tab, page)[:8]


def test_tabs_and_home_show_exact_counts_up_to_a_maximum(
    staff: Client, orders: list[Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_counts() -> list[str]:
        return [count for _, _, count in find_tabs(staff.get(ORDERS).text)][1:]

    assert stock.refresh()
    staff.post(f"{ORDERS}{orders[0].pk}/act/approve/")
    assert list_counts() == ["0", "2", "0", "0", "1", "1", "0"]
    assert "2 orders are waiting to be shipped." in staff.get("/admin/").text
    monkeypatch.setattr(status_tabs, "MAX_EXACT_COUNT", 1)  # Beyond it, the latest count of the stock.
    assert list_counts() == ["0", "1+", "0", "0", "1", "1", "0"]


def test_orders_are_filtered_by_status_and_time(staff: Client, orders: list[Order]) -> None:
    assert list_rows(staff, ORDERS, status__exact="delivered") == [orders[2]]
    Order.objects.filter(pk=orders[0].pk).update(created_at=timezone.now() - timedelta(days=8))
    assert orders[0] not in list_rows(staff, ORDERS, placed="7")
    assert orders[0] in list_rows(staff, ORDERS, placed="30")
    assert list_rows(staff, ORDERS, placed="nonsense", stage="perhaps") == orders[::-1]


def edit(staff: Client, pet: Pet, **changes: Any) -> Any:
    form = {"name": pet.name, "category": pet.category_id, "status": pet.status, "reason": ""}
    return staff.post(f"/admin/inventory/pet/{pet.pk}/change/", form | changes)


def test_manual_change_of_status_is_in_the_history(staff: Client, pet: Pet) -> None:
    assert edit(staff, pet, status="sold", name="Rex II").status_code == 302
    pet.refresh_from_db()
    assert (pet.status, pet.name) == ("sold", "Rex II")
    assert "To return it to stock, enter a reason." in edit(staff, pet, status="available").text
    edit(staff, pet, status="available", reason="The buyer is allergic.")
    assert list(pet.events.order_by("id").values_list("from_status", "to_status", "by", "reason")) == [
        ("available", "sold", "staff boss", ""),
        ("sold", "available", "staff boss", "The buyer is allergic."),
    ]


def test_action_returns_to_no_other_site(staff: Client, order: Order) -> None:
    for url in ("https://example.com/", "//example.com", "javascript:alert(1)", "\\\\x", "x"):
        response = staff.post(f"{ORDERS}{order.pk}/act/approve/?{urlencode({'next': url})}")
        assert response.headers["Location"] == "/admin/"


def test_return_makes_the_pet_available_and_is_recorded(staff: Client, orders: list[Order]) -> None:
    delivered = orders[2]
    assert "This field is required" in press_button(staff, "return_pet", delivered, reason=" ")
    page = press_button(staff, "return_pet", delivered, reason="The buyer is allergic.")
    assert f"Order {delivered.pk} is returned." in page
    pet = Pet.objects.get(pk=delivered.pet_id)
    assert (get_status(delivered), pet.status) == ("delivered", "available")
    for event in (delivered.events.latest("id"), delivered.pet.events.latest("id")):
        assert (event.by, event.reason) == ("staff boss", "The buyer is allergic.")
    entry = AuditEntry.objects.for_object(delivered).get()
    assert entry.reason == "The buyer is allergic."
    assert "returned_at" in entry.after
    assert list_rows(staff, ORDERS, stage="returned") == [delivered]
    assert delivered not in list_rows(staff, ORDERS, stage="delivered")
    assert "1 not returned." in press_button(staff, "return_pet", delivered, reason="Again")
