"""`manage.py listen` follows the running service, and forwards each event until it is accepted."""

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any

from tests.support.live import ROOT, Service
from tests.support.packages import python
from tests.support.servers import START_SECONDS


@contextmanager
def program(*statuses: int) -> Iterator[tuple[str, "Queue[Any]"]]:
    """Serve a URL that responds with these statuses in turn, then with 200; yield it, and its bodies."""
    sent: Queue[Any] = Queue()
    remaining_statuses = iter(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response_only(next(remaining_statuses, 200))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/events", sent
        finally:
            server.shutdown()
            thread.join()


def test_events_are_printed_and_forwarded_until_ctrl_c(service: Service) -> None:
    key = service.issue_high_limit_key("Listens")
    with program(500) as (url, sent), service.client(key) as client:
        begin = client.get("/events", params={"since": "9999-12-31T23:59:59Z"}).links["next"]["url"]
        listening = subprocess.Popen(
            [python(), "manage.py", "listen", f"{service.url}/v1", "--json", "--every", "0.1",
             "--since", begin.partition("cursor=")[2], "--forward", url],
            cwd=ROOT, env=service.environment | {"PETSTORE_KEY": key},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert listening.stdout is not None
            pet = client.post("/pets", json={"name": "Heard", "categoryId": 1}).json()
            printed = []
            for line in listening.stdout:  # The key itself is an event, too.
                printed.append(json.loads(line))
                if printed[-1]["data"] == {"pet": pet}:
                    break
            posted = [sent.get(timeout=START_SECONDS) for _ in range(len(printed) + 1)]
            assert posted == [printed[0], *printed]  # The first attempt was rejected.
            listening.send_signal(signal.SIGINT)
            out, err = listening.communicate(timeout=START_SECONDS)
        finally:
            listening.kill()
            listening.communicate()
    assert (listening.returncode, out) == (0, "")
    assert [event["type"] for event in printed][-1] == "pet.created"
    assert f"Event {printed[0]['id']} was not forwarded: {url} responded with 500. Retrying in 1 s." in err
    assert "To continue from here: --since " in err
