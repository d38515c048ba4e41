"""The throughput by number of pets: of lists, single pets, page 1 and a page far down.

    python -m tests.load.growth [--sizes 1000,100000,1000000,10000000] [--seconds 5] [--rounds 3]

Uses databases of its own on the PostgreSQL server of DATABASE_URL, and `manage.py serve` with
two workers. Needs wrk, and 4 GB on the server's disk for ten million pets. All sizes
are measured in turn, and ratios are to the first.
"""

import argparse
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psycopg

from tests import environment
from tests.load.requests import HEAD, KEYS, Target, compare, fill
from tests.support.live import Service, live_service

PAGE = 20
ADD = """
INSERT INTO inventory_pet (name, category_id, status, created_at, updated_at)
SELECT 'Pet number ' || n, ids[1 + n %% array_length(ids, 1)],
    (ARRAY['available', 'pending', 'available', 'sold', 'available'])[1 + n %% 5], now(), now()
FROM generate_series(1, %s) AS n, (SELECT array_agg(id) AS ids FROM inventory_category) AS categories
"""
SELECT = "SELECT id, name, category_id, status FROM inventory_pet"
PLANS = {
    "list": f"{SELECT} WHERE status = 'available' ORDER BY id LIMIT 21",
    "page": f"{SELECT} WHERE id > %s ORDER BY id LIMIT 21",
    "get": f"{SELECT} WHERE id = %s ORDER BY id LIMIT 1",
}


def add_pets(url: str, pets: int) -> None:
    """Add this many pets, and analyze the new tables."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ADD, [pets])
        connection.execute("VACUUM ANALYZE")


def show_plans(url: str, pets: int) -> None:
    """Print PostgreSQL's plans, and the number of 8 KB pages that they touch."""
    with psycopg.connect(url) as connection:
        for name, sql in PLANS.items():
            parameters = [pets // 2] if "%s" in sql else []
            plan = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {sql}", parameters)
            lines = [str(line).strip() for (line,) in plan]
            shown = [line for line in lines if "Scan" in line or "Buffers: shared" in line][:2]
            print(f"{pets:>12,} {name:6} {'; '.join(shown)}")


def far_page(service: Service, pets: int) -> str:
    """The path of the page in the middle of all pets."""
    code = (
        "from petstore.api.pagination import build_next_url;"
        f"print(build_next_url('', '/v1/pets', (), {PAGE}, {pets // 2}))"
    )
    return "/v1" + service.manage("shell", "--verbosity", "0", "--command", code).strip()


def main(options: argparse.Namespace) -> None:
    os.environ |= environment.FIXED
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running: dict[str, Target] = {}
        for pets in map(int, options.sizes.split(",")):
            (place := folder / str(pets)).mkdir()
            service = stack.enter_context(live_service(place, workers=2))
            fill(service, place / "keys", pets=0, count=KEYS)
            add_pets(service.environment["DATABASE_URL"], pets)
            show_plans(service.environment["DATABASE_URL"], pets)
            running[f"{pets:,} pets"] = Target(service, place / "keys", pets, far_page(service, pets))
        print(HEAD)
        for operation in ("list", "list100", "get", "page"):
            compare(running, operation, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,100000,1000000,10000000")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    main(parser.parse_args())
