"""A page of a list costs the same wherever it lies, and however the rows of the shop are spread.

Every statement that a request for the page sends is explained with its own values, as a prepared one and as
one that is planned anew, and judged by what it touches, never by the time it takes.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from psycopg import sql

from accounts.models import Account, PlanCode
from inventory.models import Category, OrderStatus, PetStatus
from petstore.api.pagination import page_url
from tests.conftest import COMMITTED, Api

pytestmark = COMMITTED

MANY, FEW = 20_000, 30
# Blocks of 8 KiB: some for each of a page's 51 rows and for what is joined to it.
MOST_BLOCKS = 500
MOST_STEPS = 15_000  # Of SQLite's virtual machine; a walk along MANY rows takes some 100,000.
STEPS = 100

Page = Callable[[], Any]


class Shop:
    """A shop with many rows, which are spread unevenly."""

    def __init__(self, account: Account) -> None:
        self.own = account
        self.others = Account.objects.create(name="Other Pets", plan_id=PlanCode.BUSINESS)
        self.rare, self.common = (Category.objects.create(name=name) for name in ("Rare", "Common"))

    def pets(self, count: int, category: Category, status: str) -> int:
        """Add pets; return the last one's id."""
        return self.fill(
            "INSERT INTO inventory_pet (name, category_id, status, created_at, updated_at) "
            "SELECT 'Pet', %s, %s, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP FROM numbers",
            count, category.pk, status,
        )  # fmt: skip

    def orders(self, count: int, account: Account, status: str) -> int:
        """Add orders, each of a pet of its own; return the last one's id."""
        last = self.pets(count, self.common, PetStatus.PENDING)
        return self.fill(
            "INSERT INTO inventory_order (account_id, pet_id, status, created_at, updated_at) "
            "SELECT %s, %s + i, %s, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP FROM numbers ORDER BY i",
            count, account.pk, last - count, status,
        )  # fmt: skip

    def fill(self, insert: str, count: int, *values: Any) -> int:
        """Run an insert for so many numbers; return the last id."""
        counted = f"SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {count}"
        head, separator, rest = insert.partition("SELECT")
        statement = f"{head}WITH RECURSIVE numbers (i) AS ({counted}) {separator}{rest}"
        table = head.split()[2]
        with connection.cursor() as cursor:
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


def check(page: Page, table: str) -> None:
    """Check what every read of the table that the page makes touches."""
    statements: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, params: Any, *others: Any) -> Any:
        if sql.startswith("SELECT") and f'FROM "{table}"' in sql:
            statements.append((sql, params))
        return execute(sql, params, *others)

    page()  # What is kept by a worker, or written once a minute, is no part of it.
    with connection.execute_wrapper(note):
        assert page().status_code == 200
    assert statements
    for statement in statements:
        (check_blocks if connection.vendor == "postgresql" else check_steps)(*statement)


def check_blocks(statement: str, params: Any) -> None:
    first, *rest = statement.split("%s")
    prepared = first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
    values = sql.SQL(", ").join(map(sql.Literal, params)).as_string(None)
    with connection.cursor() as cursor:
        for mode in ("force_generic_plan", "force_custom_plan"):
            cursor.execute(f"SET plan_cache_mode = {mode}")
            cursor.execute(f"PREPARE page AS {prepared.replace('%%', '%')}")
            cursor.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) EXECUTE page{f' ({values})' if params else ''}"
            )
            plan = "\n".join(line for (line,) in cursor.fetchall())
            cursor.execute("DEALLOCATE page")
            cursor.execute("RESET plan_cache_mode")
            all_of_it = re.findall(r"Buffers: shared(.*)", plan)[0]
            blocks = sum(map(int, re.findall(r"(?:hit|read)=(\d+)", all_of_it)))
            assert blocks < MOST_BLOCKS, f"{mode}: {blocks} blocks\n{plan}"
            assert not re.findall(r"Removed by Filter: \d{3,}", plan), f"{mode}\n{plan}"


def check_steps(statement: str, params: Any) -> None:
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += STEPS

    with connection.cursor() as cursor:
        connection.connection.set_progress_handler(step, STEPS)
        try:
            cursor.execute(statement, params)
            cursor.fetchall()
        finally:
            connection.connection.set_progress_handler(None, STEPS)
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}", params)
        plan = cursor.fetchall()
    assert taken < MOST_STEPS, f"{taken} steps\n{plan}"


def learn() -> None:
    """Let the database know how its rows are spread; other tests leave dead ones."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM (ANALYZE) inventory_pet, inventory_order")


def test_list_of_an_account_s_orders(api: Api, shop: Shop) -> None:
    shop.orders(MANY, shop.others, OrderStatus.DELIVERED)
    last = shop.orders(FEW, shop.own, OrderStatus.PLACED)
    shop.orders(MANY, shop.others, OrderStatus.PLACED)
    learn()
    for page in pages_of_api(api, "/store/orders", last):
        check(page, "inventory_order")


@pytest.mark.parametrize("status", [OrderStatus.PLACED, OrderStatus.DELIVERED])
def test_list_of_an_account_s_orders_of_a_status(api: Api, shop: Shop, status: str) -> None:
    """Most orders of the shop have the status, but not those that the account placed first."""
    shop.orders(3_000, shop.own, OrderStatus.CANCELLED)
    last = shop.orders(FEW, shop.own, status)
    shop.orders(MANY, shop.others, status)
    learn()
    for page in pages_of_api(api, "/store/orders", last, status=status):
        check(page, "inventory_order")


@pytest.mark.parametrize("status", PetStatus.values)
def test_list_of_the_pets_of_a_status(api: Api, shop: Shop, status: str) -> None:
    """The old half is all of other statuses, as in a real shop."""
    other = next(value for value in PetStatus.values if value != status)
    shop.pets(MANY, shop.common, other)
    last = shop.pets(MANY, shop.common, status)
    shop.pets(MANY, shop.common, other)
    learn()
    for page in pages_of_api(api, "/pets", last, status=status):
        check(page, "inventory_pet")


def test_staff_s_list_of_the_pets_of_a_category(staff: Client, shop: Shop) -> None:
    shop.pets(MANY, shop.common, PetStatus.AVAILABLE)
    last = shop.pets(FEW, shop.rare, PetStatus.AVAILABLE)
    shop.pets(MANY, shop.common, PetStatus.AVAILABLE)
    learn()
    for page in pages_of_site(staff, "pet", last, category__id__exact=shop.rare.pk):
        check(page, "inventory_pet")


def test_staff_s_list_of_the_pets_of_a_category_and_a_status(staff: Client, shop: Shop) -> None:
    shop.pets(3_000, shop.rare, PetStatus.SOLD)
    last = shop.pets(FEW, shop.rare, PetStatus.AVAILABLE)
    shop.pets(3_000, shop.rare, PetStatus.SOLD)
    shop.pets(MANY, shop.common, PetStatus.AVAILABLE)
    learn()
    both = {"category__id__exact": shop.rare.pk, "status__exact": "available"}
    for page in pages_of_site(staff, "pet", last, **both):
        check(page, "inventory_pet")


@pytest.mark.parametrize("status", [OrderStatus.APPROVED, OrderStatus.CANCELLED])
def test_staff_s_list_of_the_orders_of_a_status(staff: Client, shop: Shop, status: str) -> None:
    shop.orders(MANY, shop.others, OrderStatus.DELIVERED)
    last = shop.orders(FEW, shop.own, status)
    shop.orders(MANY, shop.others, OrderStatus.DELIVERED)
    learn()
    for page in pages_of_site(staff, "order", last, status__exact=status):
        check(page, "inventory_order")


def test_newest_orders_on_the_page_of_an_account(staff: Client, shop: Shop) -> None:
    shop.orders(FEW, shop.own, OrderStatus.PLACED)
    shop.orders(MANY, shop.others, OrderStatus.DELIVERED)
    learn()
    check(lambda: staff.get(f"/admin/accounts/account/{shop.own.pk}/change/"), "inventory_order")
