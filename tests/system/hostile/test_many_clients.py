"""Clients that are connected and ask for nothing keep nobody out."""

import argparse
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from tests.support.skips import NEEDS_POSTGRESQL
from tests.system.load.rig import rig

IDLE = 1_200  # More than twice granian's usual 512 for each worker.


@contextmanager
def files(most: int) -> Iterator[None]:
    """Let this process have so many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < most:
        pytest.skip(f"Only {hard} files may be open here.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@NEEDS_POSTGRESQL
def test_new_client_is_answered_while_very_many_are_connected() -> None:
    options = argparse.Namespace(set=[], serve_mode="loop", pets=10)
    with files(IDLE + 500), rig(options) as served, ExitStack() as stack:
        address = ("127.0.0.1", int(served.service.environment["PORT"]))
        for _ in range(IDLE):
            stack.enter_context(socket.create_connection(address, timeout=5))
        assert httpx.get(f"{served.service.url}/healthz", timeout=5).status_code == 200
