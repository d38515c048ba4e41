"""A worker that is killed under load costs no write that was acknowledged."""

import argparse
import math
import os
from pathlib import Path

import pytest

from tests.system.load import faults
from tests.system.load.client import Phase
from tests.system.load.rig import loaded, rig, wait


@pytest.mark.each_database
def test_killed_worker_costs_no_acknowledged_write(tmp_path: Path) -> None:
    """On the database that the tests run on, served in its usual way."""
    file = tmp_path / "load.sqlite3" if os.environ["DATABASE_URL"].startswith("sqlite") else None
    options = argparse.Namespace(set=[], serve_mode=None, pets=100)
    with rig(options, sqlite=file) as served:
        client = served.client()
        with loaded(client, Phase(math.inf, 60, 50)) as load:
            wait(1)
            moments = faults.kill_worker(served, client)
            wait(1)
        findings = served.shop.check(served.database)
    record = load.result()
    assert not record.between(0, moments.begin - 0.5).kinds()
    assert record.good() > len(record) / 2
    assert record.errors() == 0
    assert findings.acknowledged > 5
    assert findings.lost == findings.doubled == set()
