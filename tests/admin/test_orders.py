"""Admin of orders, and manual changes of the status of pets (D15)."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Account
from inventory import stock
from inventory.admin import status_tabs
from inventory.admin.orders import ACTIONS
from inventory.models import Category, Order, OrderStatus, Pet
from petstore.backoffice.models import AuditEntry
from tests.support.staff import clerk_who_may

ORDERS = "/admin/inventory/order/"


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


def run_action(staff: Client, action: str, *orders: Order, **form_data: Any) -> str:
    """Perform a bulk action; `form_data` is that of the confirmation page."""
    data = {"action": action, "_selected_action": [order.pk for order in orders]}
    return str(staff.post(ORDERS, data | form_data, follow=True).text.replace("&#x27;", "'"))


def press_button(staff: Client, order: Order, verb: str, **form_data: Any) -> str:
    """Press a button on the page of an order, or on its confirmation page."""
    page = staff.post(f"{ORDERS}{order.pk}/act/{verb}/", form_data, follow=True)
    return str(page.text.replace("&#x27;", "'"))


def get_status(order: Order) -> str:
    order.refresh_from_db()
    return order.status


CONFIRMED = {"confirmed": "1"}


def test_delivered_order_sells_the_pet(staff: Client, order: Order, pet: Pet) -> None:
    assert f"Order {order.pk} is approved." in run_action(staff, "approve", order)
    assert f"Order {order.pk} is shipped." in run_action(staff, "ship", order)
    assert f"Order {order.pk} is delivered." in run_action(staff, "deliver", order, **CONFIRMED)
    order.refresh_from_db()
    pet.refresh_from_db()
    assert (order.status, pet.status) == ("delivered", "sold")
    assert order.ship_date is not None
    actors = set(order.events.exclude(by="tests").values_list("by", flat=True))
    assert actors == {"staff boss"}


def test_cancelled_order_releases_the_pet(staff: Client, order: Order, pet: Pet) -> None:
    run_action(staff, "approve", order)
    run_action(staff, "cancel", order, reason="The buyer moved away.", **CONFIRMED)
    pet.refresh_from_db()
    assert pet.status == "available"
    assert order.events.latest("id").reason == "The buyer moved away."


@pytest.mark.parametrize(("action", "past_participle"), [("ship", "shipped"), ("deliver", "delivered")])
def test_illegal_action_is_skipped_with_a_reason(
    staff: Client, order: Order, action: str, past_participle: str
) -> None:
    page = run_action(staff, action, order, **CONFIRMED)
    assert (
        f"1 skipped, order {order.pk}: placed orders can't be {past_participle}; approve them first."
        in page
    )
    assert get_status(order) == "placed"


def test_skipped_orders_are_grouped_by_reason(staff: Client, orders: list[Order]) -> None:
    placed, approved, delivered, cancelled = orders
    page = run_action(staff, "cancel", *orders, reason="Closing down.", **CONFIRMED)
    assert "2 orders cancelled." in page
    assert f"1 skipped, order {delivered.pk}: delivered orders can't be cancelled." in page
    assert f"1 skipped, order {cancelled.pk}: cancelled orders can't be cancelled." in page
    assert {get_status(order) for order in (placed, approved)} == {"cancelled"}


@pytest.mark.parametrize("action", ["deliver", "cancel", "ship_later"])
def test_final_actions_and_actions_with_a_form_need_confirmation(
    staff: Client, orders: list[Order], action: str
) -> None:
    approved = orders[1]
    page = run_action(staff, action, approved)
    assert f"Order {approved.pk}: Luna ({approved.pet_id}) for Acme Pets" in page
    assert f'value="{approved.pk}"' in page
    assert (get_status(approved), approved.ship_date) == ("approved", None)


def test_cancellation_needs_a_reason(staff: Client, orders: list[Order]) -> None:
    assert "This field is required" in run_action(staff, "cancel", orders[0], **CONFIRMED)
    assert "This field is required" in press_button(staff, orders[0], "cancel", reason=" ", **CONFIRMED)
    assert get_status(orders[0]) == "placed"


@pytest.mark.parametrize(
    ("index", "verbs"),
    [(0, {"approve", "cancel"}), (1, {"ship", "ship_later", "deliver", "cancel"}), (2, set()), (3, set())],
)
def test_order_page_offers_exactly_the_legal_actions(
    staff: Client, orders: list[Order], index: int, verbs: set[str]
) -> None:
    page = staff.get(f"{ORDERS}{orders[index].pk}/change/").text
    all_verbs = {"approve", "ship", "ship_later", "change_ship_date", "deliver", "cancel"}
    assert {verb for verb in all_verbs if f"/act/{verb}/" in page} == verbs
    assert 'name="_save"' not in page


def test_buttons_of_the_order_page_perform_their_actions(staff: Client, order: Order, pet: Pet) -> None:
    assert f"Order {order.pk} is approved." in press_button(staff, order, "approve")
    press_button(staff, order, "ship")
    assert "is delivered" in press_button(staff, order, "deliver", **CONFIRMED)
    pet.refresh_from_db()
    assert (get_status(order), pet.status) == ("delivered", "sold")
    assert order.ship_date is not None
    assert AuditEntry.objects.for_object(order).count() == 3


@pytest.fixture
def fail_on_approval(monkeypatch: pytest.MonkeyPatch) -> Callable[[Order], None]:
    """Make the database fail when this order is approved."""
    approve = Order.approve

    def install(failing_order: Order) -> None:
        def approve_or_fail(self: Order, **options: Any) -> None:
            if self == failing_order:
                raise OperationalError("server closed the connection unexpectedly")
            approve(self, **options)

        monkeypatch.setattr(Order, "approve", approve_or_fail)

    return install


def test_database_failure_reports_changed_and_unchanged_orders(
    staff: Client, account: Account, category: Category, fail_on_approval: Callable[[Order], None]
) -> None:
    pets = [Pet.objects.create(name=f"Pet {number}", category=category) for number in range(4)]
    orders = [Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests") for pet in pets]
    fail_on_approval(orders[2])  # The list has the newest first.
    page = run_action(staff, "approve", *orders)
    assert f"Order {orders[3].pk} is approved." in page
    assert f"The database failed at order {orders[2].pk}. Check whether it is approved." in page
    unchanged = f"(order {orders[1].pk}, order {orders[0].pk})"
    assert f"Unchanged: 2 other orders {unchanged}. Try again." in page
    assert [get_status(order) for order in orders] == ["placed", "placed", "placed", "approved"]


def test_database_failure_on_one_order_is_reported(
    staff: Client, order: Order, fail_on_approval: Callable[[Order], None]
) -> None:
    fail_on_approval(order)
    assert f"The database failed at order {order.pk}. Check whether" in press_button(
        staff, order, "approve"
    )
    assert get_status(order) == "placed"


def test_get_request_for_an_action_changes_nothing(staff: Client, order: Order) -> None:
    for verb in ("approve", "ship", "deliver", "cancel"):
        assert staff.get(f"{ORDERS}{order.pk}/act/{verb}/").status_code == 200
    assert get_status(order) == "placed"
    assert staff.get(f"{ORDERS}{order.pk}/act/explode/").status_code == 404


def test_order_ships_on_a_date(staff: Client, orders: list[Order]) -> None:
    day = (timezone.now() + timedelta(days=3)).replace(second=0, microsecond=0)
    press_button(staff, orders[1], "ship_later", ship_date=f"{day:%Y-%m-%dT%H:%M}", **CONFIRMED)
    orders[1].refresh_from_db()
    assert orders[1].ship_date == day


def test_ship_date_of_a_shipped_order_changes_only_by_its_own_action(staff: Client, order: Order) -> None:
    run_action(staff, "approve", order)
    press_button(staff, order, "ship")
    order.refresh_from_db()
    ship_date = order.ship_date
    assert ship_date is not None
    page = staff.get(f"{ORDERS}{order.pk}/change/").text
    assert f"Approved, shipped {ship_date:%Y-%m-%d}" in page
    positions = [page.find(f"/act/{verb}/") for verb in ("deliver", "change_ship_date", "cancel")]
    assert positions == sorted(positions)
    assert -1 not in positions
    assert "they have a ship date, which can be changed" in press_button(staff, order, "ship")
    order.refresh_from_db()
    assert order.ship_date == ship_date
    day = (timezone.now() + timedelta(days=3)).replace(second=0, microsecond=0)
    press_button(staff, order, "change_ship_date", ship_date=f"{day:%Y-%m-%dT%H:%M}", **CONFIRMED)
    order.refresh_from_db()
    assert order.ship_date == day


@pytest.mark.parametrize("date", ["", "soon", "0001-01-01T00:00", "9999-12-31T23:59", "2026-13-45T99:99"])
def test_invalid_ship_date_is_rejected(staff: Client, orders: list[Order], date: str) -> None:
    press_button(staff, orders[1], "ship_later", ship_date=date, **CONFIRMED)
    orders[1].refresh_from_db()
    assert orders[1].ship_date is None


def test_saving_the_order_form_changes_nothing(staff: Client, order: Order) -> None:
    staff.post(f"{ORDERS}{order.pk}/change/", {"status": "delivered", "ship_date": "2026-01-01"})
    assert get_status(order) == "placed"


def test_viewer_has_no_actions(order: Order) -> None:
    client = clerk_who_may("view_order")
    page = client.get(f"{ORDERS}{order.pk}/change/")
    assert page.status_code == 200
    assert "/act/" not in page.text
    assert client.post(f"{ORDERS}{order.pk}/act/approve/").status_code == 403
    client.post(ORDERS, {"action": "approve", "_selected_action": [order.pk]})
    assert get_status(order) == "placed"


def list_orders(staff: Client, **query: str) -> list[Order]:
    return list(staff.get(ORDERS, query).context["cl"].result_list)


def test_orders_are_found_by_their_id_their_pet_or_their_account(
    staff: Client, orders: list[Order], account: Account
) -> None:
    assert orders[1] in list_orders(staff, q=str(orders[1].pk))
    assert orders[2] in list_orders(staff, q=str(orders[2].pet_id))
    assert list_orders(staff, q="acme") == orders[::-1]
    assert list_orders(staff, q="unknown buyer") == []
    assert list_orders(staff, q="9" * 22) == []


def find_tabs(page: str) -> list[tuple[str, ...]]:
    tab = r'<a href="[^"]*"(?: aria-current="(page)")?>([\w ]+?)(?: <span>([\d,+]+)</span>)?</a>'
    return re.findall(tab, page)[:5]


def test_tabs_show_the_stages_of_orders(staff: Client, orders: list[Order]) -> None:
    placed, approved, delivered, cancelled = orders
    orders_by_stage = {
        stage: list_orders(staff, stage=stage) for stage in ("to_approve", "to_ship", "shipped", "done")
    }
    assert orders_by_stage == {
        "to_approve": [placed],
        "to_ship": [approved],
        "shipped": [],
        "done": [cancelled, delivered],
    }
    assert find_tabs(staff.get(ORDERS, {"stage": "done"}).text) == [
        ("", "All", ""), ("", "To approve", "1"), ("", "To ship", "1"), ("", "Shipped", "0"),
        ("page", "Done", "2"),
    ]  # fmt: skip
    approved.ship(by="tests")
    assert list_orders(staff, stage="to_ship") == []
    assert list_orders(staff, stage="shipped") == [approved]


def test_tabs_and_home_show_current_counts(staff: Client, orders: list[Order]) -> None:
    assert stock.refresh()
    staff.post(f"{ORDERS}{orders[0].pk}/act/approve/")
    assert [count for _, _, count in find_tabs(staff.get(ORDERS).text)] == ["", "0", "2", "0", "2"]
    assert "2 orders wait to be shipped." in staff.get("/admin/").text


def test_large_stages_show_the_latest_stock_count(
    staff: Client, orders: list[Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_tabs, "MAX_EXACT_COUNT", 1)
    assert stock.refresh()
    assert [count for _, _, count in find_tabs(staff.get(ORDERS).text)] == ["", "1", "1", "0", "2+"]


def test_orders_are_filtered_by_status_and_time(staff: Client, orders: list[Order]) -> None:
    assert list_orders(staff, status__exact="delivered") == [orders[2]]
    Order.objects.filter(pk=orders[0].pk).update(created_at=timezone.now() - timedelta(days=8))
    assert orders[0] not in list_orders(staff, placed="7")
    assert orders[0] in list_orders(staff, placed="30")
    assert list_orders(staff, placed="nonsense", stage="perhaps") == orders[::-1]


def test_order_list_has_a_constant_number_of_queries(
    staff: Client, account: Account, orders: list[Order]
) -> None:
    assert stock.refresh()  # So that no page counts.
    costs = []
    for _ in range(3):
        with CaptureQueriesContext(connection) as queries:
            assert staff.get(ORDERS).status_code == 200
        costs.append(len(queries))
        counts = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
        assert all("LIMIT 1001" in sql for sql in counts)
        assert not any("OFFSET" in query["sql"] for query in queries)
        pet = Pet.objects.create(name="More", category=orders[0].pet.category)
        Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    assert costs[1] == costs[2]


def test_long_history_is_truncated(staff: Client, order: Order) -> None:
    for number in range(150):
        order.events.create(to_status="placed", by="tests", reason=f"Step {number}.")
    page = staff.get(f"{ORDERS}{order.pk}/change/").text
    assert page.count("Step ") == 100
    assert "Step 149." in page


@pytest.mark.parametrize("page", ["add/", "{order}/delete/"])
def test_staff_can_neither_add_nor_delete_orders(staff: Client, order: Order, page: str) -> None:
    assert staff.get(ORDERS + page.format(order=order.pk)).status_code == 403


def edit(staff: Client, pet: Pet, **changes: Any) -> Any:
    form = {"name": pet.name, "category": pet.category_id, "status": pet.status, "reason": ""}
    return staff.post(f"/admin/inventory/pet/{pet.pk}/change/", form | changes)


def test_manual_change_of_status_is_in_the_history(staff: Client, pet: Pet) -> None:
    assert edit(staff, pet, status="sold", name="Rex II").status_code == 302
    pet.refresh_from_db()
    assert (pet.status, pet.name) == ("sold", "Rex II")
    event = pet.events.get()
    assert (event.from_status, event.to_status, event.by) == ("available", "sold", "staff boss")


def test_return_needs_a_reason(staff: Client, pet: Pet) -> None:
    edit(staff, pet, status="sold")
    assert "To return it to stock, enter a reason." in edit(staff, pet, status="available").text.replace(
        "&#x27;", "'"
    )
    edit(staff, pet, status="available", reason="The buyer is allergic.")
    pet.refresh_from_db()
    assert pet.status == "available"
    assert pet.events.latest("id").reason == "The buyer is allergic."


def test_pet_with_a_live_order_cannot_be_changed_manually(staff: Client, order: Order, pet: Pet) -> None:
    pet.refresh_from_db()
    assert f"Order {order.pk} holds pet" in edit(staff, pet, status="available").text
    pet.refresh_from_db()
    assert pet.status == "pending"


def test_order_cancelled_concurrently_is_skipped(
    staff: Client, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh = Order.refresh_from_db

    def cancel_and_refresh(self: Order, *args: Any, **kwargs: Any) -> None:
        Order.objects.filter(pk=self.pk).update(status=OrderStatus.CANCELLED)
        refresh(self, *args, **kwargs)

    monkeypatch.setattr(Order, "refresh_from_db", cancel_and_refresh)
    page = run_action(staff, "cancel", order, confirmed="1", reason="Not collected")
    assert "cancelled orders can't be cancelled" in page
    assert not order.events.filter(reason="Not collected").exists()


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("", set(ACTIONS)),
        ("to_approve", {"approve", "cancel"}),
        ("to_ship", {"ship", "ship_later", "deliver", "cancel"}),
        ("shipped", {"deliver", "change_ship_date", "cancel"}),
        ("done", set()),
    ],
)
def test_tab_offers_the_actions_of_its_orders(
    staff: Client, order: Order, stage: str, expected: set[str]
) -> None:
    page = staff.get(ORDERS, {"stage": stage} if stage else {})
    assert page.status_code == 200
    assert {name for name in ACTIONS if f'<option value="{name}"' in page.text} == expected


def test_change_of_ship_date_is_described(staff: Client, order: Order) -> None:
    order.approve(by="tests")
    order.ship(by="tests")
    for path in (f"{ORDERS}{order.pk}/change/", f"/admin/accounts/account/{order.account_id}/change/"):
        text = staff.get(path).text
        assert "ship date set" in text
        assert "to be shipped" not in text
