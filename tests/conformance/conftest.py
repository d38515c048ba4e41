"""Runs the suite against CONFORMANCE_URL with CONFORMANCE_KEY, which `make conformance` sets.

Without a URL there is nothing to collect. Rules that write are skipped without CONFORMANCE_WRITE.
"""

import os
import sys
from collections.abc import Iterator

import pytest

from petstore.addresses import is_api_url
from tests.conformance.client import Client

URL = os.environ.get("CONFORMANCE_URL", "")
KEY = os.environ.get("CONFORMANCE_KEY", "").strip()
collect_ignore_glob = [] if URL else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("writes") and not os.environ.get("CONFORMANCE_WRITE"):
            item.add_marker(pytest.mark.skip(reason="It writes: set WRITE=1."))


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    if not is_api_url(URL):
        pytest.exit(f"{URL!r} is not an API address such as https://api.example.com/v1.", 2)
    if not (KEY and KEY.isascii() and KEY.isprintable()):
        pytest.exit("Set KEY to an API key with all scopes.", 2)
    with Client(URL, KEY) as client:
        try:
            response = client.get("/categories?limit=1")
        except OSError as error:
            pytest.exit(f"{URL} does not respond: {error}", 2)
        if response.status_code == 401:
            pytest.exit("The deployment rejects the key. Is it complete, and of this deployment?", 2)
        yield client
    for item in client.left_behind:
        sys.stderr.write(f"\nLeft behind: {item}.\n")
    assert not client.incomplete, f"Not all rules were checked. {client.incomplete}"
