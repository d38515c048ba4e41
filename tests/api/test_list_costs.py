"""A page of a list costs the same wherever it lies, and however the rows of the shop are spread.

Every statement that a request for the page sends is explained with its own values, as a prepared one and as
one that is planned anew, and judged by what it touches, never by the time it takes.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, combinations, product
from typing import Any, NamedTuple, TypeVar

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client

from accounts.events.views import EventViewSet
from accounts.models import Account, PlanCode
from inventory.models import Category, Order, OrderStatus, PetStatus
from petstore.api.pagination import page_url
from petstore.api.query_params import Filter
from petstore.api_urls import api as api_routes
from tests.conftest import COMMITTED, Api
from tests.support.costs import Page
from tests.support.costs import check_page as check
from tests.support.thorough import times

# PostgreSQL learns how rows are spread, and forgets dead ones, from what is committed.
pytestmark = COMMITTED if connection.vendor == "postgresql" else pytest.mark.django_db

MANY, SOME, FEW = times(20_000, 6_000), times(3_000, 1_000), 30

T = TypeVar("T")


class Shop:
    """A shop with many rows, which are spread unevenly."""

    def __init__(self, account: Account) -> None:
        self.own = account
        self.others = Account.objects.create(name="Other Pets", plan_id=PlanCode.BUSINESS)
        self.rare, self.common = (Category.objects.create(name=name) for name in ("Rare", "Common"))

    def add(self, model: type[Model], count: int, **columns: Any) -> int:
        """Add so many rows; return the last one's id."""
        if model is Category:
            return self.categories(count)
        return self.orders(count, **columns) if model is Order else self.pets(count, **columns)

    def categories(self, count: int) -> int:
        return self.fill(
            "INSERT INTO inventory_category (name, description) "
            "SELECT (%s + i) || \' of many\', \'\' FROM numbers",
            count, Category.objects.latest("id").pk,
        )  # fmt: skip

    def pets(self, count: int, category_id: int = 0, status: str = PetStatus.AVAILABLE) -> int:
        return self.fill(
            "INSERT INTO inventory_pet (name, category_id, status, created_at, updated_at) "
            "SELECT 'Pet', %s, %s, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP FROM numbers",
            count, category_id or self.common.pk, status,
        )  # fmt: skip

    def orders(self, count: int, account_id: int, status: str = OrderStatus.PLACED) -> int:
        """Each is of a pet of its own."""
        last = self.pets(count, status=PetStatus.PENDING)
        return self.fill(
            "INSERT INTO inventory_order (account_id, pet_id, status, created_at, updated_at) "
            "SELECT %s, %s + i, %s, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP FROM numbers ORDER BY i",
            count, account_id, last - count, status,
        )  # fmt: skip

    def fill(self, insert: str, count: int, *values: Any) -> int:
        """Run an insert for so many numbers; return the last id."""
        counted = f"SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {count}"
        head, separator, rest = insert.partition("SELECT")
        statement = f"{head}WITH RECURSIVE numbers (i) AS ({counted}) {separator}{rest}"
        table = head.split()[2]
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":  # Half of the time would go into looking up references.
                cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(statement, values)
            cursor.execute(f"SELECT max(id) FROM {table}")
            return int(cursor.fetchone()[0])


@pytest.fixture
def shop(account: Account) -> Shop:
    return Shop(account)


@pytest.fixture
def staff(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create(username="boss", is_staff=True, is_superuser=True))
    return client


def pages_of_api(api: Api, path: str, last: int, **filters: str) -> Iterator[Page]:
    """Yield requests for the first page, for one after the last row, and for one shortly before it."""
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    yield partial(api.get, f"{path}?limit=20&{query}")
    for after in (last - 10, last):
        url = page_url("", f"/v1{path}", tuple(filters.items()), 20, after)
        yield partial(api.get, url)


def pages_of_site(staff: Client, model: str, last: int, **filters: Any) -> Iterator[Page]:
    """Yield requests for the first page of a list of the back office, and for some in the midst of it."""
    path = f"/admin/inventory/{model}/"
    yield partial(staff.get, path, filters)
    for edge in ({"after": last}, {"before": last}, {"after": last // 2}, {"before": last // 2}):
        yield partial(staff.get, path, filters | edge)


def learn() -> None:
    """Let the database know how its rows are spread; other tests leave dead ones."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM (ANALYZE) inventory_category, inventory_pet, inventory_order")


class List(NamedTuple):
    """A list of the API with some of its filters, as the view declares them."""

    path: str
    model: type[Model]
    filters: tuple[Filter, ...]
    values: tuple[str, ...]  # One for each filter; nothing for an id.

    def __str__(self) -> str:
        sent = (f"{one.name}={value}" for one, value in zip(self.filters, self.values, strict=True))
        return " ".join([self.path, *sent])

    def columns(self, shop: Shop) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values of the rows that belong to the list, and others."""
        wanted: dict[str, Any] = {}
        other: dict[str, Any] = {}
        if self.model is Order:  # An account sees its own.
            wanted["account_id"], other["account_id"] = shop.own.pk, shop.others.pk
        for one, value in zip(self.filters, self.values, strict=True):
            if one.choices is not None:
                words = one.choices.values
                wanted[one.column], other[one.column] = value, words[words.index(value) - 1]
            else:
                wanted[one.column], other[one.column] = shop.rare.pk, shop.common.pk
        return wanted, other


def declared_lists() -> Iterator[List]:
    """Yield each list of the API with each combination of its filters and each word of these."""
    for route in api_routes:
        view: Any = getattr(route.callback, "cls", None)
        if view is EventViewSet:
            continue  # The feed: see test_event_costs.py.
        if "list" in getattr(route.callback, "actions", {}).values():
            for filters in subsets(view.filters):
                words = [one.choices.values if one.choices is not None else [""] for one in filters]
                for values in product(*words):
                    path = f"/{route.pattern}".removeprefix("/v1")
                    yield List(path, view.queryset.model, filters, values)


def subsets(things: Sequence[T]) -> Iterator[tuple[T, ...]]:
    return chain.from_iterable(combinations(things, count) for count in range(len(things) + 1))


@pytest.mark.parametrize("matching", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("one", [*declared_lists()], ids=str)
def test_list_costs_the_same_on_every_page_and_for_any_stock(
    api: Api, shop: Shop, one: List, matching: int
) -> None:
    """What matches lies together, amid rows that meet none of the filters, or some of them but not all."""
    wanted, other = one.columns(shop)
    amid = [
        (SOME if part else MANY, other | dict(part)) for part in list(subsets(list(wanted.items())))[:-1]
    ]
    for count, columns in amid:
        shop.add(one.model, count, **columns)
    last = shop.add(one.model, matching, **wanted)
    for count, columns in amid:
        shop.add(one.model, count, **columns)
    learn()
    sent = {filter_.name: str(wanted[filter_.column]) for filter_ in one.filters}
    for page in pages_of_api(api, one.path, last, **sent):
        check(page, one.model._meta.db_table)


def test_staff_s_list_of_the_pets_of_a_category(staff: Client, shop: Shop) -> None:
    shop.pets(MANY, shop.common.pk, PetStatus.AVAILABLE)
    last = shop.pets(FEW, shop.rare.pk, PetStatus.AVAILABLE)
    shop.pets(MANY, shop.common.pk, PetStatus.AVAILABLE)
    learn()
    for page in pages_of_site(staff, "pet", last, category__id__exact=shop.rare.pk):
        check(page, "inventory_pet")


def test_staff_s_list_of_the_pets_of_a_category_and_a_status(staff: Client, shop: Shop) -> None:
    shop.pets(SOME, shop.rare.pk, PetStatus.SOLD)
    last = shop.pets(FEW, shop.rare.pk, PetStatus.AVAILABLE)
    shop.pets(SOME, shop.rare.pk, PetStatus.SOLD)
    shop.pets(MANY, shop.common.pk, PetStatus.AVAILABLE)
    learn()
    both = {"category__id__exact": shop.rare.pk, "status__exact": "available"}
    for page in pages_of_site(staff, "pet", last, **both):
        check(page, "inventory_pet")


@pytest.mark.parametrize(
    ("status", "filters"),
    [
        (OrderStatus.PLACED, [{"stage": "to_approve"}]),
        (OrderStatus.APPROVED, [{"stage": "to_ship"}, {"status__exact": "approved"}]),
        (OrderStatus.CANCELLED, [{"status__exact": "cancelled"}]),
        (OrderStatus.DELIVERED, [{"stage": "done"}]),
    ],
)
def test_staff_s_list_of_the_orders_of_a_stage_or_status(
    staff: Client, shop: Shop, status: OrderStatus, filters: list[dict[str, str]]
) -> None:
    others = OrderStatus.PLACED if status == OrderStatus.DELIVERED else OrderStatus.DELIVERED
    shop.orders(MANY, shop.others.pk, others)
    last = shop.orders(FEW, shop.own.pk, status)
    shop.orders(MANY, shop.others.pk, others)
    learn()
    for filter_ in filters:
        for page in pages_of_site(staff, "order", last, **filter_):
            check(page, "inventory_order")
    check(lambda: staff.get(f"/admin/accounts/account/{shop.own.pk}/change/"), "inventory_order")
