"""Killing a worker under load loses no acknowledged write."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.live import live_service
from tests.support.servers import wait_until
from tests.system.operations.machines import Customers, add_and_order, check_orders

CUSTOMERS = 6
ORDERS = 20  # Before the kill, and again after it.
REPLACED_SECONDS = 5.0


@pytest.mark.each_database
def test_killed_worker_loses_no_acknowledged_write(tmp_path: Path) -> None:
    with live_service(tmp_path, workers=2) as service:
        key = service.issue_high_limit_key("Busy")
        with Customers(CUSTOMERS, service.url, key, add_and_order) as load:
            wait_until(lambda: load.statuses()[201] >= ORDERS)
            killed_at = time.monotonic()
            _, victim, *others = service.processes()
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: len(set(service.processes()[1:]) - {victim, *others}) == 1, REPLACED_SECONDS)
            replaced_at = time.monotonic()
            wait_until(lambda: load.statuses(since=replaced_at)[201] >= ORDERS)
        check_orders(load, service.environment["DATABASE_URL"])
    assert {one.status for one in load.all if one.arrived < killed_at} == {201}
    assert load.statuses().keys() <= {0, 201, 503}  # 0: the connection was lost.
