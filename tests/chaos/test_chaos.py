"""A short chaos run: no fault of PostgreSQL causes a wrong response."""

import asyncio
import random
from pathlib import Path

from tests.chaos.report import report
from tests.chaos.run import run
from tests.support.migrated import migrated_database
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.thorough import THOROUGH, times

# A cycle takes about 12.
SECONDS = times(36, 12)


@NEEDS_POSTGRESQL
def test_no_fault_of_postgresql_causes_a_wrong_response(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    outcome = asyncio.run(
        run(tmp_path, migrated_database(), seed=seed, seconds=SECONDS, is_short=not THOROUGH)
    )
    assert outcome.violations == [], "\n".join(report(outcome))
