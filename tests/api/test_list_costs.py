"""The cost of a page depends neither on its position in the list nor on the distribution of the rows.

Each statement of a request is explained with its own values, both as a prepared statement and with a new
plan. The tests check what a plan reads, and never measure time.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, combinations, product
from typing import Any, NamedTuple, TypeVar

import pytest
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from accounts.events.views import EventViewSet
from accounts.models import Account, PlanCode, Role
from inventory.models import Category, Order, OrderStatus, Pet, PetStatus
from petstore.api.pagination import build_next_url
from petstore.api.query_params import Filter, IdsFilter
from petstore.api_urls import api as api_routes
from tests.conftest import COMMITTED, Api
from tests.support.costs import Page
from tests.support.costs import check_page as check
from tests.support.members import member_of
from tests.support.staff import signed_in, superuser
from tests.support.thorough import some, times

# VACUUM (ANALYZE) needs committed rows.
pytestmark = COMMITTED if connection.vendor == "postgresql" else pytest.mark.django_db

MANY, SOME, FEW = times(20_000, 4_000), times(3_000, 800), 30

MODELS: dict[str, type[Model]] = {"/pets": Pet, "/categories": Category, "/store/orders": Order}

T = TypeVar("T")


class Shop:
    """A shop with many rows, which are spread unevenly."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.other_account = Account.objects.create(name="Other Pets", plan_id=PlanCode.BUSINESS)
        self.rare, self.common = (Category.objects.create(name=name) for name in ("Rare", "Common"))

    def add(self, model: type[Model], count: int, **columns: Any) -> int:
        """Add rows, and return the highest id."""
        if model is Category:
            return self.add_categories(count)
        add = self.add_orders if model is Order else self.add_pets
        return add(count, **columns)

    def add_categories(self, count: int) -> int:
        return self.insert(
            "INSERT INTO inventory_category (name, description) "
            "SELECT (%s + i) || \' of many\', \'\' FROM numbers",
            count, Category.objects.latest("id").pk,
        )  # fmt: skip

    def add_pets(self, count: int, category_id: int = 0, status: str = PetStatus.AVAILABLE) -> int:
        return self.insert(
            "INSERT INTO inventory_pet (name, category_id, status, created_at, updated_at) "
            "SELECT 'Pet', %s, %s, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP FROM numbers",
            count, category_id or self.common.pk, status,
        )  # fmt: skip

    def add_orders(self, count: int, account_id: int, status: str = OrderStatus.PLACED) -> int:
        """Add orders, each for its own pet."""
        last_pet = self.add_pets(count, status=PetStatus.PENDING)
        return self.insert(
            "INSERT INTO inventory_order (account_id, pet_id, status, created_at, updated_at) "
            "SELECT %s, %s + i, %s, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP FROM numbers ORDER BY i",
            count, account_id, last_pet - count, status,
        )  # fmt: skip

    def insert(self, sql: str, count: int, *values: Any) -> int:
        """Run an INSERT ... SELECT ... FROM numbers with the numbers from 1. Return the highest id."""
        numbers = f"SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {count}"
        insert, select, source = sql.partition("SELECT")
        statement = f"{insert}WITH RECURSIVE numbers (i) AS ({numbers}) {select}{source}"
        table = insert.split()[2]
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":  # Skip the slow checks of foreign keys.
                cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(statement, values)
            cursor.execute(f"SELECT max(id) FROM {table}")
            return int(cursor.fetchone()[0])


@pytest.fixture
def shop(account: Account) -> Shop:
    return Shop(account)


@pytest.fixture
def staff(db: None) -> Client:
    return signed_in(superuser())


def build_api_requests(api: Api, path: str, last: int, **filters: str) -> Iterator[Page]:
    """Yield requests for the first page, and for pages near the last row and after it."""
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    yield partial(api.get, f"{path}?limit=20&{query}")
    for after in (last - 10, last):
        url = build_next_url("", f"/v1{path}", tuple(filters.items()), 20, after)
        yield partial(api.get, url)


def build_admin_requests(staff: Client, model: str, last: int, **filters: Any) -> Iterator[Page]:
    """Yield requests for the first and later pages of a list in the back office."""
    path = f"/admin/inventory/{model}/"
    yield partial(staff.get, path, filters)
    edges = [{"after": last}, {"before": last}, {"after": last // 2}, {"before": last // 2}]
    for edge in some(edges, 3):
        yield partial(staff.get, path, filters | edge)


def update_statistics() -> None:
    """Also remove the dead rows of other tests."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM (ANALYZE) inventory_category, inventory_pet, inventory_order")


class List(NamedTuple):
    """A list of the API with some of its filters, as the view declares them."""

    path: str
    model: type[Model]
    filters: tuple[Filter, ...]
    values: tuple[str, ...]  # The value of each filter; empty for a filter by id.

    def __str__(self) -> str:
        query = (f"{item.name}={value}" for item, value in zip(self.filters, self.values, strict=True))
        return " ".join([self.path, *query])

    def choose_columns(self, shop: Shop) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the column values of rows in the list, and of rows outside it."""
        matching: dict[str, Any] = {}
        other: dict[str, Any] = {}
        if self.model is Order:  # An account lists only its own orders.
            matching["account_id"], other["account_id"] = shop.account.pk, shop.other_account.pk
        for item, value in zip(self.filters, self.values, strict=True):
            if item.choices is not None:
                choices = item.choices.values
                matching[item.column], other[item.column] = value, choices[choices.index(value) - 1]
            else:
                matching[item.column], other[item.column] = shop.rare.pk, shop.common.pk
        return matching, other


def find_lists() -> Iterator[List]:
    """Yield each list of the API with each combination of filters, with each choice in CI."""
    for route in api_routes:
        view: Any = getattr(route.callback, "cls", None)
        if view is EventViewSet:
            continue  # test_event_costs.py tests the feed.
        if "<" in str(route.pattern):
            continue  # The list of one object's rows, such as a pet's, needs a test of its own.
        if "list" in getattr(route.callback, "actions", {}).values():
            path = f"/{route.pattern}".removeprefix("/v1")
            compared = [item for item in view.filters if not isinstance(item, IdsFilter)]
            for filters in subsets(compared):
                choices = [some(item.choices.values, 9) if item.choices else [""] for item in filters]
                for values in product(*choices):
                    yield List(path, MODELS[path], filters, values)


def test_list_by_ids_costs_the_same_with_any_filter(api: Api, shop: Shop) -> None:
    last = shop.add_pets(MANY)
    update_statistics()
    ids = ",".join(str(last - number * MANY // 100) for number in range(99))
    for status, category in product(("", "&status=available"), ("", f"&categoryId={shop.common.pk}")):
        check(partial(api.get, f"/pets?limit=100&ids={ids}{status}{category}"), "inventory_pet")


def subsets(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


@pytest.mark.parametrize("count", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("tested", [*find_lists()], ids=str)
def test_list_costs_the_same_on_every_page_and_for_any_stock(
    api: Api, shop: Shop, tested: List, count: int
) -> None:
    """The matching rows are contiguous, between rows that match none or only some of the filters."""
    matching, other = tested.choose_columns(shop)
    partly_matching = list(subsets(list(matching.items())))[:-1]
    surroundings = [(SOME if columns else MANY, other | dict(columns)) for columns in partly_matching]
    for number, columns in surroundings:
        shop.add(tested.model, number, **columns)
    last = shop.add(tested.model, count, **matching)
    for number, columns in surroundings:
        shop.add(tested.model, number, **columns)
    update_statistics()
    query = {item.name: str(matching[item.column]) for item in tested.filters}
    for page in build_api_requests(api, tested.path, last, **query):
        check(page, tested.model._meta.db_table)


@pytest.mark.parametrize(
    "filters",
    [{"category__id__exact": "rare"}, {"category__id__exact": "rare", "status__exact": "available"}],
)
def test_admin_list_of_pets_of_a_category(staff: Client, shop: Shop, filters: dict[str, Any]) -> None:
    surroundings = [(shop.common, PetStatus.AVAILABLE, MANY)]
    if len(filters) > 1:
        surroundings.append((shop.rare, PetStatus.SOLD, SOME))
    for category, status, count in surroundings:
        shop.add_pets(count, category.pk, status)
    last = shop.add_pets(FEW, shop.rare.pk, PetStatus.AVAILABLE)
    for category, status, count in surroundings:
        shop.add_pets(count, category.pk, status)
    update_statistics()
    for page in build_admin_requests(staff, "pet", last, **filters | {"category__id__exact": shop.rare.pk}):
        check(page, "inventory_pet")


@pytest.mark.parametrize(
    ("others", "filters"),
    [
        (OrderStatus.PLACED, {OrderStatus.DELIVERED: [{"stage": "delivered"}]}),
        (
            OrderStatus.DELIVERED,
            {
                OrderStatus.PLACED: [{"stage": "to_approve"}],
                OrderStatus.APPROVED: [{"stage": "to_ship"}, {"status__exact": "approved"}],
                OrderStatus.CANCELLED: [{"stage": "cancelled"}, {"status__exact": "cancelled"}],
            },
        ),
    ],
)
def test_admin_list_of_the_orders_of_a_stage_or_status(
    staff: Client, shop: Shop, others: OrderStatus, filters: dict[OrderStatus, list[dict[str, str]]]
) -> None:
    shop.add_orders(MANY, shop.other_account.pk, others)
    last = {status: shop.add_orders(FEW, shop.account.pk, status) for status in filters}
    shop.add_orders(MANY, shop.other_account.pk, others)
    update_statistics()
    staff.get("/admin/inventory/order/")  # Caches the counts of the stages.
    for status, filters_of_status in filters.items():
        for filter_ in filters_of_status:
            for page in build_admin_requests(staff, "order", last[status], **filter_):
                check(page, "inventory_order")
    check(lambda: staff.get(f"/admin/accounts/account/{shop.account.pk}/change/"), "inventory_order")


def test_list_of_the_orders_of_a_member_at_a_stage(shop: Shop) -> None:
    member = member_of(shop.account, Role.READER)
    for account in (shop.account, shop.other_account):
        last = shop.add_orders(MANY, account.pk, OrderStatus.DELIVERED)
        Order.objects.filter(pk__gt=last - FEW).update(returned_at=timezone.now())
    update_statistics()
    for stage in ("delivered", "returned"):
        page = partial(member.get, f"/account/{shop.account.public_id}/orders/", {"stage": stage})
        check(page, "inventory_order")
