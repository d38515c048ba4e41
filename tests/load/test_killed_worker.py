"""Killing a worker under load loses no acknowledged write."""

import argparse
import math
import os
import signal
import time
from pathlib import Path

import pytest

from tests.load.client import Phase
from tests.load.record import Record
from tests.load.rig import loaded, rig
from tests.support.servers import wait_until

RECOVERED = 5.0  # Seconds until another worker has replaced it.


@pytest.mark.each_database
def test_killed_worker_loses_no_acknowledged_write(tmp_path: Path) -> None:
    """On the database of the tests, in its default serve mode."""
    file = tmp_path / "load.sqlite3" if os.environ["DATABASE_URL"].startswith("sqlite") else None
    options = argparse.Namespace(set=[], serve_mode=None, pets=100)
    with rig(options, sqlite=file) as served:
        client = served.client()
        with loaded(client, Phase(math.inf, 60, 50)) as load:
            time.sleep(1)
            killed_at = client.now()
            _, victim, *others = served.service.processes()
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: len(set(served.service.processes()[1:]) - {victim, *others}) == 1, RECOVERED)
            time.sleep(1)
        findings = served.shop.check(served.database)
    record = load.result()
    assert not Record(row for row in record if row.due + row.took < killed_at).failures()
    assert record.good() > len(record) / 2
    assert record.errors() == 0
    assert findings.acknowledged > 5
    assert findings.lost == findings.doubled == set()
