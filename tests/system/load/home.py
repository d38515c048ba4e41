"""Measures the back office's home page in a big shop.

    createdb big
    DATABASE_URL=postgresql://USER@HOST/big python -m tests.system.load.home [--pets 1000000]

An empty database is migrated and filled first: that many pets, and accounts with two keys and a year of
usage each. Then the page is asked for 20 times. Prints its queries, their number, and the times.
"""

import argparse
import os
import statistics
from time import perf_counter

import django

TIMES = 20
YEAR = 365
NAMES = "ARRAY['free', 'pro', 'business', 'pro', 'free', 'free', 'free', 'business', 'free', 'free']"
FILL = [
    """INSERT INTO inventory_pet (name, category_id, status, created_at, updated_at)
       SELECT 'Pet number ' || n, (SELECT min(id) FROM inventory_category) + n % 10,
              (ARRAY['available', 'available', 'available', 'pending', 'sold'])[1 + n / 7 % 5], now(), now()
       FROM generate_series(1, {pets}) AS n""",
    f"""INSERT INTO accounts_account (public_id, name, plan_id, created_at)
        SELECT lpad(n::text, 8, '0'), 'Customer ' || n, ({NAMES})[1 + n % 10], now()
        FROM generate_series(1, {{accounts}}) AS n""",
    """INSERT INTO accounts_apikey (account_id, public_id, mode, name, digest, pepper_number, scopes,
                                    allowed_networks, created_at, expires_at, revoked_reason)
       SELECT id, 'key' || id || 'x' || n, 'live', '', '', 1, 'pets:read', '[]', now(),
              CASE WHEN id % 7 = 0 THEN now() + id * interval '1 hour' + interval '1 minute' END, ''
       FROM accounts_account, generate_series(1, 2) AS n""",
    f"""INSERT INTO accounts_dailyusage (key_id, day, requests, refusals)
        SELECT key.id, (now() AT TIME ZONE 'UTC')::date - day, 100 + key.id, key.id % 5
        FROM generate_series(0, {YEAR - 1}) AS day, accounts_apikey AS key""",
    f"""INSERT INTO accounts_deprecateduse (account_id, operation, day, requests, last_call_at)
        SELECT id, 'getPet', (now() AT TIME ZONE 'UTC')::date - day, 5, now()
        FROM accounts_account, generate_series(0, {YEAR - 1}) AS day WHERE id % 5 = 0""",
    f"""INSERT INTO accounts_accountdayload (account_id, day, minutes)
        SELECT id, (now() AT TIME ZONE 'UTC')::date - day, '{{{{"1": 100, "7": 20}}}}'
        FROM accounts_account, generate_series(0, {YEAR - 1}) AS day""",
    """INSERT INTO accounts_quotacounter (account_id, minute_ends, minute_used, day, day_used, seen_at,
                                          admitted)
       SELECT id, 0, 0, (now() AT TIME ZONE 'UTC')::date - DATE '1970-01-01', id % 1000, 0, true
       FROM accounts_account""",
    """INSERT INTO accounts_keystanding (key_id, told_until, strikes, strikes_end, banned_at, banned_until,
                                         ban_level)
       SELECT id, 0, 0, 0, 0, CASE WHEN id % 50 = 0 THEN 9000000000000000 ELSE 0 END, 1
       FROM accounts_apikey""",
    """INSERT INTO inventory_order (account_id, pet_id, status, created_at, updated_at)
       SELECT (SELECT min(id) FROM accounts_account), id, 'placed', now(), now()
       FROM inventory_pet WHERE status = 'pending' AND id % 11 = 0""",
    "ANALYZE",
]


def fill(pets: int, accounts: int) -> None:
    """Migrate, and fill. PostgreSQL only: a million rows by one statement."""
    from django.core.management import call_command
    from django.db import connection, transaction

    from inventory.models import Pet
    from inventory.stock import refresh

    call_command("migrate", verbosity=0)
    if Pet.objects.exists():
        return
    began = perf_counter()
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in FILL:
            cursor.execute(statement.format(pets=pets, accounts=accounts))
    print(f"Filled in {perf_counter() - began:.0f} s.")
    began = perf_counter()
    refresh()
    print(f"Counted the stock, as a worker does beside the requests, in {perf_counter() - began:.2f} s.")


def measure() -> None:
    """Ask for the page, and print what it costs."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get_or_create(username="boss", is_staff=True, is_superuser=True)[0])
    seconds = []
    for _ in range(TIMES + 1):
        with CaptureQueriesContext(connection) as queries:
            began = perf_counter()
            assert client.get("/admin/").status_code == 200
            seconds.append(perf_counter() - began)
    for query in queries:
        print(f"{query['time']} s  {query['sql'][:100]}")
    waited = 1000 * sum(float(query["time"]) for query in queries)
    first, *later = (1000 * value for value in seconds)
    print(
        f"{len(queries)} queries, {waited:.0f} ms in the database. The page: {first:.0f} ms the first "
        f"time, then {statistics.median(later):.0f} ms (median of {TIMES}), at most {max(later):.0f} ms."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pets", type=int, default=1_000_000)
    parser.add_argument("--accounts", type=int, default=1_000)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    django.setup()
    fill(options.pets, options.accounts)
    measure()
