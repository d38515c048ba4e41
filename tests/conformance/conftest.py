"""Runs the suite against CONFORMANCE_URL with CONFORMANCE_KEY, which `make conformance` sets.

Without a URL there is nothing to collect. Rules that write are skipped without CONFORMANCE_WRITE.
"""

import os
import sys
from collections.abc import Iterator

import pytest

from tests.conformance.client import Client, connect

URL = os.environ.get("CONFORMANCE_URL", "")
KEY = os.environ.get("CONFORMANCE_KEY", "").strip()
collect_ignore_glob = [] if URL else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("writes") and not os.environ.get("CONFORMANCE_WRITE"):
            item.add_marker(pytest.mark.skip(reason="It writes: set WRITE=1."))


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    with connect(URL, KEY) as client:
        yield client
    for item in client.left_behind:
        sys.stderr.write(f"\nLeft behind: {item}.\n")
    assert not client.incomplete, f"Not all rules were checked. {client.incomplete}"
