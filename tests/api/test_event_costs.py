"""Every page of the feed costs the same, regardless of its position and of the caller's share (D40)."""

from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.events.feed import SINCE_QUERY, compile_page_query
from accounts.models import Account, Actor, ApiKey, Event, EventType, Feed, PlanCode, WebhookEndpoint
from accounts.models.events import TYPES
from accounts.quota.limits import to_microseconds
from accounts.webhooks.delivery import wake
from petstore.db.event_loop.compiled_reads import RawRead
from tests.conftest import COMMITTED
from tests.support.costs import check_blocks, check_cost, check_page, check_steps, recorded_statements
from tests.support.staff import signed_in, superuser
from tests.support.thorough import some, times

# VACUUM ANALYZE considers committed rows only.
pytestmark = COMMITTED if connection.vendor == "postgresql" else pytest.mark.django_db

OWN, OTHER = 7, 8  # Accounts.
MANY, FEW = times(20_000, 5_000), 30
AT = 1_795_400_000_000_000
FILL = """
INSERT INTO accounts_event (id, account_id, type, created_at, sequenced_at, data)
WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < %s)
SELECT %s + i, %s, %s, %s + i, %s + i, '{}' FROM numbers
"""


@pytest.fixture
def ends(db: None) -> list[int]:
    """Create a feed with few events of the account among many; return the last ID of each section."""
    ends = [0]
    for count, owner, kind in (
        (MANY, OTHER, EventType.ORDER_PLACED),
        (FEW, OWN, EventType.ORDER_PLACED),
        (MANY, 0, EventType.PET_CREATED),
        (FEW, OWN, EventType.KEY_ISSUED),
        (MANY, OTHER, EventType.ORDER_PLACED),
    ):
        last = ends[-1]
        with connection.cursor() as cursor:
            cursor.execute(FILL, [count, last, owner, kind.value, AT + last, AT + last])
        ends.append(last + count)
    Feed.objects.update(last_id=ends[-1], last_sequenced_at=AT + ends[-1])
    update_statistics()
    return ends


def update_statistics() -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE) accounts_event, accounts_feed")


def test_page_costs_the_same_everywhere(ends: list[int]) -> None:
    for kind in ("", "order", "order.placed", "pet", "pets", "key"):
        types = TYPES[kind] if kind else ()
        read = compile_page_query(tuple(not kind.is_public for kind in types))
        names = {f"type_{index}": kind.value for index, kind in enumerate(types)}
        for after, limit in product((*ends, ends[-1] - 10), (1, 20)):
            check(read, {"account": OWN, "after": after, "limit": limit, **names})


def test_since_and_sleeping_endpoints_are_found_without_reading_the_feed(ends: list[int]) -> None:
    """For each endpoint, a later event is looked for in vain (D54)."""
    for at in (*ends, ends[-1] // 2):
        check(SINCE_QUERY, {"since": AT + at})
    for owner in (OWN, OTHER, OTHER + 1):
        account = Account.objects.create(pk=owner, name=f"Pets {owner}", plan_id=PlanCode.PRO)
        WebhookEndpoint.objects.create(account=account, types="order pet", position=ends[-1])
    for after in (None, ends[-1] - 10):
        with recorded_statements() as statements:
            assert wake(after, timezone.now()) == 0
        (statement,) = statements
        check_cost(*statement)


STAFF_QUERIES: list[dict[str, Any]] = [
    {}, {"type": "pet.created"}, {"type": "order.placed"}, {"type": "quota.reached", "o": "0"},
    {"type": "order.placed", "o": "0"}, {"q": "Own Pets"}, {"q": "17"},
    {"q": "Own Pets", "type": "key.issued"},
]  # fmt: skip


def test_back_office_list_costs_the_same_everywhere(ends: list[int]) -> None:
    account = Account.objects.create(pk=OWN, name="Own Pets", plan_id=PlanCode.PRO)
    key, _ = ApiKey.objects.issue(account, by=Actor("tests"))
    now, half = timezone.now(), ends[-1] // 2
    for ids, age in (({"pk__lte": half}, timedelta(days=10)), ({"pk__gt": half}, timedelta(hours=1))):
        at = to_microseconds(now - age)
        Event.objects.filter(**ids).update(created_at=at, sequenced_at=at)
    update_statistics()
    staff = signed_in(superuser())
    positions: list[dict[str, Any]] = [
        {}, {"after": ends[1]}, {"before": ends[1]}, {"days": "7", "before": ends[-2]},
        {"days": "older", "after": ends[1]},
    ]  # fmt: skip
    for query, position in some([*product([*STAFF_QUERIES, {"q": key.public_id}], positions)], 2):
        page = partial(staff.get, "/admin/accounts/event/", query | position)
        check_page(page, "accounts_event")
    check_page(partial(staff.get, f"/admin/accounts/account/{OWN}/change/"), "accounts_event")


def check(read: RawRead, values: dict[str, int | str]) -> None:
    """Check the rows that a query reads, with a generic and with a custom plan."""
    if connection.vendor == "postgresql":
        check_blocks(read.statement.sql.decode(), [values[name] for name in read.names])
    else:
        check_steps(read.statement.django, values)
