"""How fast webhooks are delivered, and what that costs the API: see README.md beside this file.

    python -m tests.load.webhooks [--endpoints 500] [--events 20] [--pairs 5] [--process]

Half of the receivers respond after 50 ms, one in ten hangs, and the others respond at once. Each pair
measures GET /v1/pets, about 300 a second, while nothing is delivered, and while everything is. With
--process, `manage.py deliver_webhooks` delivers instead of the workers. Needs wrk.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from tests import environment
from tests.load.requests import Target, memory_mib, run
from tests.support.live import ROOT, Service, live_service
from tests.support.packages import python
from tests.support.sql import connect_to, insert, select

ENDPOINTS_PER_ACCOUNT = 10  # The most that it may have.
HANGING_SECONDS = 30  # Longer than an attempt.
CONNECTIONS, PAUSE_MS = 8, 25
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Receivers:
    """Receivers of webhooks on one port, by the number in the path."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.loop = asyncio.new_event_loop()
        server = asyncio.start_server(self.handle, "127.0.0.1", 0, backlog=1_000)
        self.port: int = self.loop.run_until_complete(server).sockets[0].getsockname()[1]
        Thread(target=self.loop.run_forever, daemon=True).start()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
                number = int(head.split()[1].removeprefix(b"/"))
                if number % 10 == 9:
                    await asyncio.sleep(HANGING_SECONDS)
                    break
                await asyncio.sleep(0.05 if number % 2 == 0 else 0)
                self.counts[number] += 1
                writer.write(RESPONSE)


def add_endpoints(connection: Any, account_ids: list[int], count: int, port: int) -> None:
    rows = [
        {
            "account_id": account_ids[number // ENDPOINTS_PER_ACCOUNT], "public_id": f"load{number:010}",
            "url": f"http://127.0.0.1:{port}/{number}", "types": "order", "description": "",
            "created_at": "2026-01-01 00:00:00+00:00", "disabled_by": "", "secret_version": 1,
            "pepper_number": 1, "position": 0, "attempts": 0, "lease": "",
        }
        for number in range(count)
    ]  # fmt: skip
    insert(connection, "accounts_webhookendpoint", rows)
    connection.commit()


def add_events(connection: Any, account_ids: list[int], count: int) -> None:
    now, data = time.time_ns() // 1000, json.dumps({"order": {"id": 1, "petId": 1, "status": "placed"}})
    rows = [
        {"account_id": account_id, "type": "order.placed", "created_at": now, "data": data}
        for _ in range(count)
        for account_id in account_ids
    ]
    insert(connection, "accounts_outboxevent", rows)
    connection.commit()


def measure_delivery(receivers: Receivers, expected: int) -> float:
    """Wait until every healthy receiver has got everything; return the seconds."""
    started_at, before = time.monotonic(), receivers.counts.total()
    while receivers.counts.total() - before < expected:
        time.sleep(0.02)
    return time.monotonic() - started_at


def main(options: argparse.Namespace) -> None:
    os.environ |= environment.FIXED | {"DJANGO_SETTINGS_MODULE": "petstore.settings"}
    os.environ.setdefault("DATABASE_URL", "sqlite:///unused")
    receivers = Receivers()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = {"WEBHOOK_ALLOW_NETWORKS": "127.0.0.1/32"}
        if options.process:
            settings["WEBHOOK_WORKERS"] = "0"
        service: Service = stack.enter_context(live_service(folder, workers=2, **settings))
        url = service.environment["DATABASE_URL"]
        key_file = folder / "keys"
        key_file.write_text(service.issue_high_limit_key("Reader") + "\n")
        for number in range(options.endpoints // ENDPOINTS_PER_ACCOUNT):
            service.issue(f"Account {number}")
        rows = select(url, "SELECT id FROM accounts_account WHERE name LIKE 'Account %' ORDER BY id")
        account_ids = [row[0] for row in rows]
        connection = stack.enter_context(connect_to(url))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        add_endpoints(connection, account_ids, options.endpoints, receivers.port)
        target = Target(service, key_file, 1)
        healthy = sum(number % 10 != 9 for number in range(options.endpoints))
        measure = partial(run, target, "list", connections=CONNECTIONS, pause_ms=PAUSE_MS)
        measure(1)  # Warms up.
        if options.process:
            command = [python(), "manage.py", "deliver_webhooks"]
            process = subprocess.Popen(
                command, cwd=ROOT, env=service.environment, stdout=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        print(f"{'pair':6}{'idle p50 ms':>14}{'busy p50 ms':>14}{'ratio':>8}{'delivered in s':>16}")
        ratios, durations = [], []
        for pair in range(1, options.pairs + 1):
            idle = measure(5)
            add_events(connection, account_ids, options.events)
            waiting = pool.submit(measure_delivery, receivers, healthy * options.events)
            busy = measure(5)
            ratios.append(busy.p50_ms / idle.p50_ms)
            durations.append(waiting.result())
            line = (
                f"{pair:<6}{idle.p50_ms:>14.2f}{busy.p50_ms:>14.2f}{ratios[-1]:>8.2f}{durations[-1]:>16.1f}"
            )
            print(line, flush=True)
        print(f"Medians: ratio {statistics.median(ratios):.2f}, {statistics.median(durations):.1f} s")
        add_events(connection, account_ids, options.events)
        alone = measure_delivery(receivers, healthy * options.events)
        print(f"Without requests: {alone:.1f} s. Memory: {memory_mib(service.processes()):.0f} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--endpoints", type=int, default=500)
    parser.add_argument("--events", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--process", action="store_true")
    main(parser.parse_args())
