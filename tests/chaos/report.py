"""The report of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.chaos.client import LOST, SILENT
from tests.chaos.customers import Finding
from tests.chaos.run import Outcome

SHOWN = 20


def format_status(status: int) -> str:
    return {LOST: "lost", SILENT: "no response"}.get(status, str(status))


def format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "none"


def report(outcome: Outcome) -> Iterator[str]:
    shop = outcome.shop
    by_status: Counter[str] = Counter()
    for (_, status), count in shop.replies.items():
        by_status[format_status(status)] += count
    yield f"Seed {outcome.seed}: {shop.replies.total():,} requests: {format_counts(by_status)}."
    for operation in sorted({operation for operation, _ in shop.replies}):
        own = {format_status(n): count for (name, n), count in shop.replies.items() if name == operation}
        yield f"  {operation}: {format_counts(Counter(own))}"
    yield f"The slowest response took {shop.slowest:.2f} s."
    yield "Faults, and the connections or chunks that they affected:"
    for kind, times in sorted(outcome.injected.items()):
        yield f"  {kind}: injected {times}, affected {outcome.affected[kind]:,}"
    yield f"Recovered after {', '.join(f'{seconds:.1f}' for seconds in outcome.recoveries)} s."
    yield f"Keys revoked: {format_counts(outcome.revoked)}. Bans: {outcome.bans}."
    for journal in (one for one in shop.journals if one.account.limited_by):
        windows = [n for _, n in sorted(journal.admitted.items())]
        account = journal.account
        limits = f"{account.per_minute:,} a minute, {account.per_day:,} a day"
        yield f"  {account.name} ({limits}): admitted {windows} of {len(journal.sent):,}"
    before, after = outcome.before, outcome.after
    yield f"Memory: {before.mib:.0f} MiB before, {after.mib:.0f} after."
    yield f"Sockets: {before.sockets} before, {after.sockets} after."
    yield f"Violations: {format_counts(Counter(str(one.violation.kind) for one in shop.findings))}."
    seen: Counter[str] = Counter()

    def occurrence(finding: Finding) -> int:
        """Number findings by kind, so that the first of each kind are shown first."""
        seen[finding.violation.kind] += 1
        return seen[finding.violation.kind]

    for finding in sorted(shop.findings, key=occurrence)[:SHOWN]:
        violation = finding.violation
        yield f"  {finding.at:6.1f} s  {violation.kind}  [{violation.request_id}]  {violation.detail}"
