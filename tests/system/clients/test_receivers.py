"""The receivers of the guide to webhooks accept what is signed with their secret, and nothing else."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accounts.models import Account, WebhookEndpoint
from accounts.webhooks.delivery import Dispatcher
from petstore.templatetags.documentation import render_text
from tests.conftest import OPERATOR
from tests.support import npm
from tests.support.servers import free_port, wait_until
from tests.system.clients.outputs import RUN

RECEIVERS = ("by-hand.py", "by-hand.mjs", "with-library.py", "with-library.mjs")
Start = Callable[[WebhookEndpoint, str], None]


@pytest.fixture(params=RECEIVERS)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """A function that starts a receiver at the endpoint's URL, with a secret."""
    processes = []

    def start(endpoint: WebhookEndpoint, secret: str) -> None:
        name, port = request.param, endpoint.url.rpartition(":")[2].rstrip("/")
        (tmp_path / name).write_text(render_text(f"docs/receivers/{name}"))
        if name.endswith(".mjs"):
            (tmp_path / "node_modules").symlink_to(npm.install(Path(__file__).parent / "retrying"))
        environment = os.environ | {"PORT": port, "WEBHOOK_SECRET": secret}
        command = [RUN[name.rpartition(".")[2]], name]
        processes.append(subprocess.Popen(command, cwd=tmp_path, env=environment))
        wait_until(lambda: socket.create_connection(("127.0.0.1", int(port))).close())

    yield start
    for process in processes:
        process.terminate()
        process.wait()


@pytest.fixture
def endpoint(account: Account, settings: Any) -> WebhookEndpoint:
    settings.WEBHOOK_ALLOW_NETWORKS = ["127.0.0.1/32"]
    return WebhookEndpoint.objects.add(account, url=f"http://127.0.0.1:{free_port()}/", by=OPERATOR)


def deliver_test(endpoint: WebhookEndpoint) -> int | None:
    """Send a test as the service does; return the status of the response."""
    attempt, dispatcher = endpoint.send_test(by=OPERATOR), Dispatcher(1)
    deadline = time.monotonic() + 30
    while attempt.is_pending:
        assert time.monotonic() < deadline
        dispatcher.step()
        attempt.refresh_from_db()
    return attempt.status


def test_receiver_of_the_guide_accepts_only_its_signatures(endpoint: WebhookEndpoint, start: Start) -> None:
    start(endpoint, endpoint.reveal_secret(by=OPERATOR))
    assert deliver_test(endpoint) == 204
    endpoint.rotate_secret(by=OPERATOR)
    assert deliver_test(endpoint) == 204  # Both secrets sign.
    WebhookEndpoint.objects.update(old_secret_ends_at=None, old_pepper_number=None)
    assert deliver_test(endpoint) == 400
