"""Followers of the feed receive each of their events once and in order, despite late commits (D40).

RACE_EVENTS=100000 races more of them.
"""

import os
from pathlib import Path

import pytest

from tests.support.live import live_service
from tests.support.thorough import times
from tests.system.events.race import Race

EVENTS = int(os.environ.get("RACE_EVENTS", times(5_000, 3_000)))
pytestmark = pytest.mark.each_database


def test_followers_get_every_event_once_and_in_order(tmp_path: Path) -> None:
    with live_service(tmp_path, workers=2) as service:
        assert Race(service, EVENTS).run() >= EVENTS
