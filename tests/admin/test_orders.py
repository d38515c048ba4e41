"""Admin of orders, and manual changes of the status of pets (D15)."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Account, ApiKey
from inventory import stock
from inventory.admin import status_tabs
from inventory.models import Category, Order, Pet
from petstore.audit.models import AuditEntry
from tests.support.staff import CONFIRMED, clerk_with, run_bulk_action

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
def test_delivered_order_sells_the_pet(
    staff: Client, order: Order, pet: Pet, act: Callable[..., str]
) -> None:
    assert f"Order {order.pk} is approved." in act(staff, "approve", order)
    assert f"Order {order.pk} is shipped." in act(staff, "ship", order)
    assert f"Order {order.pk} is delivered." in act(staff, "deliver", order, **CONFIRMED)
    order.refresh_from_db()
    pet.refresh_from_db()
    assert (order.status, pet.status) == ("delivered", "sold")
    assert order.ship_date is not None
    actors = set(order.events.exclude(by="tests").values_list("by", flat=True))
    assert actors == {"staff boss"}
    history = staff.get(f"{ORDERS}{order.pk}/change/").context["history"]
    assert {entry.actor for entry in history} == {"boss", "tests"}  # As in the audit trail.
    assert AuditEntry.objects.for_object(order).count() == 3


@pytest.mark.parametrize(
    ("changes", "verb", "outcome"),
    [
        ([], "ship", "1 not shipped. Order {} is placed."),
        ([], "deliver", "1 not delivered. Order {} is placed."),
        (["approve"], "approve", "1 not approved. Order {} is approved."),
        (["approve", "cancel"], "ship", "1 not shipped. Order {} is cancelled."),
    ],
)
def test_illegal_action_is_skipped_with_a_reason(
    staff: Client, order: Order, changes: list[str], verb: str, outcome: str
) -> None:
    for change in changes:
        getattr(order, change)(by="a colleague")
    before = get_status(order)
    assert outcome.format(order.pk) in press_button(staff, verb, order)
    assert get_status(order) == before


def test_skipped_orders_are_listed_with_the_reasons(staff: Client, orders: list[Order]) -> None:
    placed, approved, delivered, cancelled = orders
    page = run_action(staff, "cancel", *orders, reason="Closing down.", **CONFIRMED)
    assert "2 orders cancelled." in page
    reasons = f"Order {cancelled.pk} is cancelled. Order {delivered.pk} is delivered."
    assert f"2 not cancelled. {reasons}" in page
    for order in (placed, approved):
        assert (get_status(order), order.events.latest("id").reason) == ("cancelled", "Closing down.")
        assert Pet.objects.get(pk=order.pet_id).status == "available"


@pytest.mark.parametrize("action", ["deliver", "cancel", "ship_later"])
def test_final_actions_and_actions_with_a_form_need_confirmation(
    staff: Client, orders: list[Order], action: str
) -> None:
    approved = orders[1]
    page = run_action(staff, action, approved)
    assert f"Order {approved.pk}: Luna ({approved.pet_id}) for Acme Pets" in page
    assert f'value="{approved.pk}"' in page
    assert (get_status(approved), approved.ship_date) == ("approved", None)


@pytest.mark.parametrize(
    ("index", "verbs"),
    [
        (0, {"approve", "cancel"}),
        (1, {"ship", "ship_later", "deliver", "cancel"}),
        (2, {"return_pet"}),
        (3, set()),
    ],
)
def test_order_page_offers_exactly_the_legal_actions(
    staff: Client, orders: list[Order], index: int, verbs: set[str]
) -> None:
    page = staff.get(f"{ORDERS}{orders[index].pk}/change/").text
    assert {verb for verb in ACTIONS if f"/act/{verb}/" in page} == verbs
    assert 'name="_save"' not in page


def test_database_failure_reports_changed_and_unchanged_orders(
    staff: Client, account: Account, category: Category, monkeypatch: pytest.MonkeyPatch
) -> None:
    pets = [Pet.objects.create(name=f"Pet {number}", category=category) for number in range(4)]
    orders = [Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests") for pet in pets]
    approve, failing_order = Order.approve, orders[2]

    def approve_or_fail(self: Order, **options: Any) -> None:
        if self == failing_order:
            raise OperationalError("server closed the connection unexpectedly")
        approve(self, **options)

    monkeypatch.setattr(Order, "approve", approve_or_fail)
    page = run_action(staff, "approve", *orders)  # The list has the newest first.
    assert f"Order {orders[3].pk} is approved." in page
    failure = f"The database failed at order {failing_order.pk}. Check whether it is approved."
    unchanged = f"(order {orders[1].pk}, order {orders[0].pk})"
    assert f"{failure} Unchanged: 2 other orders {unchanged}. Try again." in page
    page = press_button(staff, "approve", failing_order)
    assert failure in page
    assert "Unchanged" not in page
    assert [get_status(order) for order in orders] == ["placed", "placed", "placed", "approved"]


def test_get_request_for_an_action_changes_nothing(staff: Client, order: Order) -> None:
    for verb in ("approve", "ship", "deliver", "cancel"):
        assert staff.get(f"{ORDERS}{order.pk}/act/{verb}/").status_code == 200
    assert get_status(order) == "placed"
    assert staff.get(f"{ORDERS}{order.pk}/act/explode/").status_code == 404


def set_ship_date(staff: Client, verb: str, order: Order) -> datetime:
    date = (timezone.now() + timedelta(days=3)).replace(second=0, microsecond=0)
    press_button(staff, verb, order, ship_date=f"{date:%Y-%m-%dT%H:%M}")
    order.refresh_from_db()
    return date


def test_order_ships_on_a_date(staff: Client, orders: list[Order]) -> None:
    assert set_ship_date(staff, "ship_later", orders[1]) == orders[1].ship_date


def test_ship_date_of_a_shipped_order_changes_only_by_its_own_action(staff: Client, order: Order) -> None:
    order.approve(by="tests")
    order.ship(by="tests")
    ship_date = order.ship_date
    page = staff.get(f"{ORDERS}{order.pk}/change/").text
    assert re.search(rf">\s*Shipped\s*</span>\s+on {ship_date:%Y-%m-%d}", page)
    positions = [page.find(f"/act/{verb}/") for verb in ("deliver", "reschedule", "cancel")]
    assert positions == sorted(positions)
    assert -1 not in positions
    assert f"1 not shipped. Order {order.pk} is shipped." in press_button(staff, "ship", order)
    order.refresh_from_db()
    assert order.ship_date == ship_date
    assert set_ship_date(staff, "reschedule", order) == order.ship_date


@pytest.mark.parametrize("date", ["", "soon", "0001-01-01T00:00", "9999-12-31T23:59", "2026-13-45T99:99"])
def test_invalid_ship_date_is_rejected(staff: Client, orders: list[Order], date: str) -> None:
    press_button(staff, "ship_later", orders[1], ship_date=date)
    orders[1].refresh_from_db()
    assert orders[1].ship_date is None


def test_saving_the_order_form_changes_nothing(staff: Client, order: Order) -> None:
    staff.post(f"{ORDERS}{order.pk}/change/", {"status": "delivered", "ship_date": "2026-01-01"})
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
    return re.findall(tab, page)[:6]


def find_badges(page: str) -> list[str]:
    return re.findall(r"field-status_badge.*?>\s*([A-Z]\w+)\s*<", page, re.DOTALL)


def test_tabs_show_the_stages_of_orders(staff: Client, orders: list[Order]) -> None:
    placed, approved, delivered, cancelled = orders
    stages = {"to_approve": [placed], "to_ship": [approved], "shipped": [], "done": [cancelled, delivered]}
    assert {stage: list_orders(staff, stage=stage) for stage in stages} == stages
    assert find_tabs(staff.get(ORDERS, {"stage": "done"}).text) == [
        ("", "All", ""), ("", "To approve", "1"), ("", "To ship", "1"), ("", "Scheduled", "0"),
        ("", "Shipped", "0"), ("page", "Done", "2"),
    ]  # fmt: skip
    approved.ship(by="tests", ship_date=timezone.now() + timedelta(days=2))
    assert list_orders(staff, stage="to_ship") == list_orders(staff, stage="shipped") == []
    assert list_orders(staff, stage="scheduled") == [approved]
    assert find_badges(staff.get(ORDERS).text) == ["Cancelled", "Delivered", "Scheduled", "Placed"]
    approved.ship(by="tests", ship_date=timezone.now())
    assert list_orders(staff, stage="scheduled") == []
    assert list_orders(staff, stage="shipped") == [approved]
    assert find_badges(staff.get(ORDERS).text) == ["Cancelled", "Delivered", "Shipped", "Placed"]


def test_tabs_and_home_show_current_counts(staff: Client, orders: list[Order]) -> None:
    assert stock.refresh()
    staff.post(f"{ORDERS}{orders[0].pk}/act/approve/")
    assert [count for _, _, count in find_tabs(staff.get(ORDERS).text)] == ["", "0", "2", "0", "0", "2"]
    assert "2 orders are waiting to be shipped." in staff.get("/admin/").text


def test_large_stages_show_the_latest_stock_count(
    staff: Client, orders: list[Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_tabs, "MAX_EXACT_COUNT", 1)
    assert stock.refresh()
    assert [count for _, _, count in find_tabs(staff.get(ORDERS).text)] == ["", "1", "1", "0", "0", "2+"]


def test_orders_are_filtered_by_status_and_time(staff: Client, orders: list[Order]) -> None:
    assert list_orders(staff, status__exact="delivered") == [orders[2]]
    Order.objects.filter(pk=orders[0].pk).update(created_at=timezone.now() - timedelta(days=8))
    assert orders[0] not in list_orders(staff, placed="7")
    assert orders[0] in list_orders(staff, placed="30")
    assert list_orders(staff, placed="nonsense", stage="perhaps") == orders[::-1]


def test_order_list_has_a_constant_number_of_queries(
    staff: Client, account: Account, orders: list[Order]
) -> None:
    assert stock.refresh()  # Otherwise, a page would count.
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
    assert "To return it to stock, enter a reason." in edit(staff, pet, status="available").text
    edit(staff, pet, status="available", reason="The buyer is allergic.")
    assert list(pet.events.order_by("id").values_list("from_status", "to_status", "by", "reason")) == [
        ("available", "sold", "staff boss", ""),
        ("sold", "available", "staff boss", "The buyer is allergic."),
    ]
    pet.refresh_from_db()
    assert pet.status == "available"


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("", ACTIONS),
        ("to_approve", {"approve", "cancel"}),
        ("to_ship", {"ship", "ship_later", "deliver", "cancel"}),
        ("scheduled", {"deliver", "reschedule", "cancel"}),
        ("shipped", {"deliver", "reschedule", "cancel"}),
        ("done", {"return_pet"}),
    ],
)
def test_tab_offers_the_actions_of_its_orders(
    staff: Client, order: Order, stage: str, expected: set[str]
) -> None:
    page = staff.get(ORDERS, {"stage": stage} if stage else {})
    assert page.status_code == 200
    assert {name for name in ACTIONS if f'name="action" value="{name}"' in page.text} == expected


def test_change_of_ship_date_is_described(staff: Client, order: Order) -> None:
    order.approve(by="tests")
    order.ship(by="tests")
    for path in (f"{ORDERS}{order.pk}/change/", f"/admin/accounts/account/{order.account_id}/change/"):
        text = staff.get(path).text
        assert "ship date set" in text
        assert "to be shipped" not in text


# --- The next step in the list and on the page, and the return of a delivered order


def find_steps(page: str) -> list[str]:
    """Return the labels and orders of the buttons and links of steps, in the order of the page."""
    return re.findall(r'class="step-button[^"]*" aria-label="([^"]+)"', page)


def test_list_offers_the_next_step_of_each_order(staff: Client, orders: list[Order], pet: Pet) -> None:
    _, approved, delivered, _ = orders
    shipped = Order.objects.place(account_id=approved.account_id, pet_id=pet.pk, by="tests")
    shipped.approve(by="tests")
    shipped.ship(by="tests")
    approved.ship(by="tests", ship_date=timezone.now() + timedelta(days=1))
    assert find_steps(staff.get(ORDERS).text) == [
        f"Deliver: order {shipped.pk}", f"Return... order {delivered.pk}",
        f"Change ship date... order {approved.pk}", f"Approve: order {orders[0].pk}",
    ]  # fmt: skip
    viewer = clerk_with("view_order").get(ORDERS)
    assert (viewer.status_code, find_steps(viewer.text)) == (200, [])
    assert "Next step" not in viewer.text


def find_action(page: str, label: str) -> str:
    """Return the URL to which the button of a step posts the form, or to which its link leads."""
    match = re.search(rf'(?:formaction|href)="([^"]+)" class="step-button[^"]*" aria-label="{label}', page)
    assert match, label
    return unescape(match[1])


def test_row_button_acts_and_returns_to_the_same_list(staff: Client, order: Order) -> None:
    page = staff.get(ORDERS, {"stage": "to_approve"}).text
    assert (
        '<form method="post" id="next-step" hidden><input type="hidden" name="csrfmiddlewaretoken"' in page
    )
    response = staff.post(find_action(page, "Approve"))
    assert response.headers["Location"] == f"{ORDERS}?stage=to_approve"
    assert get_status(order) == "approved"
    assert AuditEntry.objects.for_object(order).get().actor_name == "boss"


@pytest.mark.parametrize("url", ["https://example.com/", "//example.com", "javascript:alert(1)", "\\\\x"])
def test_action_returns_to_no_other_site(staff: Client, order: Order, url: str) -> None:
    response = staff.post(f"{ORDERS}{order.pk}/act/approve/?{urlencode({'next': url})}")
    assert response.headers["Location"] == "/admin/"


def test_only_early_delivery_needs_confirmation(staff: Client, order: Order) -> None:
    order.approve(by="tests")
    path = f"{ORDERS}{order.pk}/change/"
    assert f"Deliver... order {order.pk}" in find_steps(staff.get(path).text)
    order.ship(by="tests")
    response = staff.post(find_action(staff.get(path).text, "Deliver"))
    assert (response.headers["Location"], get_status(order)) == (path, "delivered")


def test_order_page_leads_to_its_neighbours_in_the_list(staff: Client, orders: list[Order]) -> None:
    def find_neighbours(order: Order, filters: str = "") -> list[tuple[str, str]]:
        query = {"_changelist_filters": filters} if filters else {}
        page = staff.get(f"{ORDERS}{order.pk}/change/", query).text
        return re.findall(r'rel="(prev|next)" href="([^"]+)"', page)

    def link(order: Order, query: str = "") -> str:
        return f"{ORDERS}{order.pk}/change/{query}"

    first, second, third, fourth = orders
    assert find_neighbours(second) == [("prev", link(third)), ("next", link(first))]
    assert find_neighbours(fourth) == [("next", link(third))]
    query = "?_changelist_filters=status__exact%3Ddelivered"
    assert find_neighbours(second, "status__exact=delivered") == [("prev", link(third, query))]
    assert find_neighbours(second, "q=nothing+like+it") == []
    assert find_neighbours(second, "o=1&before=2") != []
    assert find_neighbours(second, "status__isnull=x") == []
    assert staff.get(link(second), {"_changelist_filters": "pet__name=x"}).status_code < 500


def test_return_makes_the_pet_available_and_is_recorded(staff: Client, orders: list[Order]) -> None:
    delivered = orders[2]
    path = f"{ORDERS}{delivered.pk}/act/return_pet/"
    assert f"Return order {delivered.pk}" in staff.get(path).text
    assert "This field is required" in press_button(staff, "return_pet", delivered, reason=" ")
    page = press_button(staff, "return_pet", delivered, reason="The buyer is allergic.")
    assert f"Order {delivered.pk} is returned." in page
    assert "<strong>returned</strong>" in page
    pet = Pet.objects.get(pk=delivered.pet_id)
    assert (get_status(delivered), pet.status) == ("delivered", "available")
    assert find_steps(staff.get(f"{ORDERS}{delivered.pk}/change/").text) == []
    for event in (delivered.events.latest("id"), delivered.pet.events.latest("id")):
        assert (event.by, event.reason) == ("staff boss", "The buyer is allergic.")
    assert AuditEntry.objects.for_object(delivered).get().reason == "The buyer is allergic."
    assert "1 not returned." in press_button(staff, "return_pet", delivered, reason="Again")


def test_order_cannot_return_a_resold_pet(staff: Client, orders: list[Order]) -> None:
    delivered = orders[2]
    delivered.return_pet(by="tests", reason="Allergic")
    second = Order.objects.place(account_id=delivered.account_id, pet_id=delivered.pet_id, by="tests")
    second.approve(by="tests")
    second.deliver(by="tests")
    page = press_button(staff, "return_pet", delivered, reason="Again")
    assert f"The pet of order {delivered.pk} was returned or has changed since." in page
    assert Pet.objects.get(pk=delivered.pet_id).status == "sold"
    assert "1 not returned." in run_action(staff, "return_pet", delivered, reason="Again", **CONFIRMED)
    assert f"Order {second.pk} is returned." in press_button(staff, "return_pet", second, reason="Now")


def test_pet_page_shows_its_orders_with_their_buyers(
    staff: Client, account: Account, key: ApiKey, pet: Pet
) -> None:
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by=f"key {key.public_id}")
    path = f"/admin/inventory/pet/{pet.pk}/change/"
    links = [
        f"/admin/inventory/order/{order.pk}/change/",
        f"/admin/accounts/account/{account.pk}/change/",
        f"/admin/accounts/apikey/{key.pk}/change/",
    ]
    page = staff.get(path).text
    assert all(f'href="{link}"' in page for link in links)
    clerk = clerk_with("view_pet", "view_order")
    page = clerk.get(path).text
    assert [f'href="{link}"' in page for link in links] == [True, False, False]
    assert key.public_id in page
    clerk.logout()
