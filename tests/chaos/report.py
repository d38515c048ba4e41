"""The report of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.chaos.run import Outcome

SHOWN = 20


def status(number: int) -> str:
    return {0: "lost", -1: "silent"}.get(number, str(number))


def listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "none"


def report(outcome: Outcome) -> Iterator[str]:
    shop = outcome.shop
    by_status: Counter[str] = Counter()
    for (_, number), count in shop.replies.items():
        by_status[status(number)] += count
    yield f"Seed {outcome.seed}: {shop.replies.total():,} requests: {listed(by_status)}."
    for operation in sorted({operation for operation, _ in shop.replies}):
        of_it = {status(n): count for (name, n), count in shop.replies.items() if name == operation}
        yield f"  {operation}: {listed(Counter(of_it))}"
    yield f"The slowest answer took {shop.slowest:.2f} s."
    yield "Faults, and the connections or pieces that they touched:"
    for (backend, kind), times in sorted(outcome.injected.items()):
        yield f"  {backend}: {times} times {kind}, {outcome.struck[backend, kind]:,} touched"
    yield f"Well again after {', '.join(f'{took:.1f}' for took in outcome.recoveries)} s."
    yield f"Keys revoked: {listed(outcome.revoked)}. Bans: {outcome.bans}."
    for journal in (one for one in shop.journals if one.account.limited_by):
        windows = [n for (window, _), n in sorted(journal.charged.items())]
        account = journal.account
        numbers = f"{account.per_minute:,} a minute, {account.per_day:,} a day"
        yield f"  {account.name} ({numbers}): admitted {windows} of {len(journal.sent):,}"
    before, after = outcome.before, outcome.after
    yield f"Memory: {before.mib:.0f} MiB, then {after.mib:.0f}."
    yield f"Sockets: {before.sockets} under load, then {after.sockets}."
    kinds = Counter(str(told.violation.kind) for told in shop.told)
    yield f"Violations: {listed(kinds)}."
    seen: Counter[str] = Counter()
    for told in sorted(shop.told, key=lambda one: seen_before(seen, one.violation.kind))[:SHOWN]:
        violation = told.violation
        yield f"  {told.at:6.1f} s  {violation.kind}  [{violation.request_id}]  {violation.detail}"


def seen_before(seen: Counter[str], kind: str) -> int:
    """Number findings by kind, so that the first of each kind are shown first."""
    seen[kind] += 1
    return seen[kind]
