"""A chaos run: no fault of PostgreSQL causes a wrong response.

CHAOS_SECONDS=600 runs for longer, CHAOS_SEED=17 repeats the faults of a seed, and SERVE_MODE=threads uses
the other serve mode. The log of the service is `serve.log` in the test's `tmp_path`.
"""

import asyncio
import os
import random
from pathlib import Path

from tests.chaos.run import run
from tests.support.migrated import migrated_database
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.thorough import THOROUGH, times

SECONDS = float(os.environ.get("CHAOS_SECONDS", times(36, 12)))  # A cycle takes about 12.
SEED = int(os.environ.get("CHAOS_SEED", random.randrange(1_000_000)))


@NEEDS_POSTGRESQL
def test_no_fault_of_postgresql_causes_a_wrong_response(tmp_path: Path) -> None:
    is_short = not THOROUGH and "CHAOS_SECONDS" not in os.environ
    chaos = run(tmp_path, migrated_database(), seed=SEED, seconds=SECONDS, is_short=is_short)
    findings = [f"{at:6.1f} s  {found}" for at, found in asyncio.run(chaos)]
    assert not findings, "\n".join([f"CHAOS_SEED={SEED}", *findings[:20]])
