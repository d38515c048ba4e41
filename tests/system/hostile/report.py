"""Runs an attack on a live service, and says what it found."""

import asyncio
import re
from urllib.parse import urlsplit

from accounts import key_text
from tests.support.live import Service
from tests.system.hostile.sending import Attacker, Findings

KEY = re.compile(key_text.PATTERN)
TRACE = "Traceback (most recent call last)"


def attack(service: Service, key: str, requests: int, seed: int, slow: int) -> Findings:
    """Send that many hostile requests."""
    port = urlsplit(service.url).port
    assert port is not None
    return asyncio.run(Attacker(port, key, requests, seed, slow).run())


def lines_with_a_key(log: str) -> list[str]:
    """Return the lines of a log in which the text of a key stands, without it."""
    return [KEY.sub("<a key>", line) for line in log.splitlines() if KEY.search(line)]


def report(findings: Findings, log: str, seconds: float) -> tuple[list[str], bool]:
    """Return what was found, in lines, and whether anything of it is bad."""
    leaks, traces = lines_with_a_key(log), [line for line in log.splitlines() if TRACE in line]
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(findings.statuses.items()))
    lines = [
        f"{findings.sent} hostile requests in {seconds:.0f} s",
        f"answers             {statuses}",
        f"closed without one  {findings.unanswered}",
        f"5xx                 {findings.server_errors}",
        f"hangs               {len(findings.hangs)}",
        f"others served       {findings.watched - len(findings.not_served)} of {findings.watched}, "
        f"the slowest in {findings.slowest_watched * 1000:.0f} ms",
        f"log lines with keys {len(leaks)}",
        f"tracebacks          {len(traces)}",
    ]
    lines += [f"led to a 5xx: {request[:300]!r}" for request in findings.failures]
    lines += [f"hung: {request[:300]!r}" for request in findings.hangs]
    lines += [f"not served: {what}" for what in findings.not_served[:20]]
    lines += [f"traceback: {end}" for end in sorted({line[-300:] for line in traces})[:10]]
    lines += [f"logged: {line[:300]}" for line in leaks[:20]]
    bad = findings.server_errors or findings.hangs or findings.not_served or leaks or traces
    return lines, bool(bad)
