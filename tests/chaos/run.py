"""One run: cycles of faults and recovery while customers send requests and staff revoke keys."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from tests.chaos.checks import Kind, Violation, of_limits
from tests.chaos.client import Client
from tests.chaos.customers import Shop
from tests.chaos.faults import Choice, plan
from tests.chaos.follower import Follower, every_event_has_its_place, of_feed
from tests.chaos.journal import Account
from tests.chaos.records import Records, of_records
from tests.chaos.rig import Rig, Usage, rig
from tests.chaos.staff import Key, Staff
from tests.support.servers import wait_until

WELL_SECONDS = 5.0  # The limit of a recovery.
TIMEOUT = 12.0  # Seconds until the next cycle starts anyway.
WARM_SECONDS = 1.5  # Without faults, at the start.
LOOK_SECONDS = 0.3  # Within which all workers must be healthy.
LOOKS = 10  # Connections that poll /readyz, to reach each worker.
CYCLE_SECONDS = 12.0  # Approximately, on an idle machine.
MORE_MIB = 100.0  # What memory may grow by; a worker keeps what its first 100,000 requests needed.
MORE_SOCKETS = 40  # Than when the load began: by then not every thread and writer had its connection yet.
PETS = 200  # Not ordered, so that lists are full.
DAY_IN_SECONDS = 5  # Requests a day of those with a small limit, for each second: reached in half the run.
REDIS_PATHS = ("/0", "")  # By the seed; see `rig`.
EVERYTHING = Choice()
NOTHING = Usage(0.0, 0)
SMALL_MINUTE = 200  # Few enough to be reached; a ban takes more refusals in a minute than come.


@dataclass
class Outcome:
    """The results of a run."""

    seed: int
    choice: Choice
    tell: Callable[[str], None]
    shop: Shop
    injected: Counter[tuple[str, str]] = field(default_factory=Counter)
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    recoveries: list[float] = field(default_factory=list)  # Seconds.
    revoked: Counter[str] = field(default_factory=Counter)
    bans: int = 0
    before: Usage = NOTHING
    after: Usage = NOTHING

    @property
    def violations(self) -> list[Violation]:
        return [told.violation for told in self.shop.told]


def accounts(seconds: float) -> dict[str, tuple[int, int, str]]:
    """Choose the accounts' limits per minute and day, and which of them they reach."""
    roomy = {f"Roomy {n}": (1_000_000_000 + n, 2_000_000_000 + n, "") for n in range(4)}
    minute = {f"Minute {n}": (SMALL_MINUTE + n, 3_000_000_000 + n, "minute") for n in range(2)}
    day = int(max(100, DAY_IN_SECONDS * seconds))
    return roomy | minute | {f"Day {n}": (4_000_000_000 + n, day + n, "day") for n in range(2)}


async def run(
    folder: Path,
    template: str,
    *,
    seed: int,
    seconds: float,
    choice: Choice = EVERYTHING,
    tell: Callable[[str], None] = print,
    **settings: str,
) -> Outcome:
    """Run for about that many seconds, on a copy of that migrated database.

    `tell` takes lines of what happens. `settings` are the service's.
    """
    limits = accounts(seconds)
    cycles = max(1, round(seconds / CYCLE_SECONDS))
    wanted = {
        "accounts": {name: numbers[:2] for name, numbers in limits.items()},
        "spare": 3 * cycles, "banned": cycles, "pets": PETS,
    }  # fmt: skip
    async with rig(folder, template, wanted, REDIS_PATHS[seed % 2], settings) as (made, has):
        keys = {name: one["key"] for name, one in has["accounts"].items()}
        known = [Account(name, keys[name], *numbers) for name, numbers in limits.items()]
        run_id = f"chaos-{seed}"
        shop = Shop(made.port, known, run_id)
        outcome = Outcome(seed, choice, tell, shop)
        async with Staff.at_work(made.service, run_id) as staff, asyncio.TaskGroup() as group:
            follower = Follower(shop, shop.journals[0])
            busy = group.create_task(shop.keep_busy(seed, follower))
            await Chaos(made, outcome, staff, has).go_on(cycles)
            shop.stop()
            await busy
        placed = partial(every_event_has_its_place, made.database)
        await asyncio.to_thread(wait_until, placed, WELL_SECONDS)
        await follower.read_all()
        with suppress(AssertionError):  # Reported by `conclude`.
            closed = partial(has_closed_what_was_left, made, outcome.before.sockets)
            await asyncio.to_thread(wait_until, closed, WELL_SECONDS)
        conclude(made, outcome, follower)
        return outcome


def has_closed_what_was_left(made: Rig, sockets: int) -> None:
    """Raise AssertionError while the service holds more sockets than under load before the faults."""
    assert made.usage().sockets <= sockets + MORE_SOCKETS


def conclude(made: Rig, outcome: Outcome, follower: Follower) -> None:
    """Check the final state after the last request."""
    shop = outcome.shop
    outcome.after = made.usage()
    if outcome.after.mib > outcome.before.mib + MORE_MIB:
        shop.tell([Violation(Kind.LEFT, "", f"{outcome.before.mib:.0f} MiB, then {outcome.after.mib:.0f}")])
    if outcome.after.sockets > outcome.before.sockets + MORE_SOCKETS:
        detail = f"{outcome.before.sockets} sockets, then {outcome.after.sockets}"
        shop.tell([Violation(Kind.LEFT, "", detail)])
    changed = any(backend == "redis" for backend, _ in made.injected)
    for journal in shop.journals:
        shop.tell(of_limits(journal, changed=changed))
    records = Records.read(made.database, shop.run)
    shop.tell(of_records(shop, records))
    shop.tell(of_feed(follower.heard, shop.journals[0].account.name, shop.run, records))
    outcome.injected = Counter({(name, str(kind)): n for (name, kind), n in made.injected.items()})
    for name, proxy in made.proxies.items():
        outcome.struck += Counter({(name, str(kind)): n for kind, n in proxy.struck.items()})


class Chaos:
    """The cycles."""

    def __init__(self, made: Rig, outcome: Outcome, staff: Staff, has: dict[str, Any]) -> None:
        self._rig = made
        self._outcome = outcome
        self._shop = outcome.shop
        self._staff = staff
        self._spare = [Key(**one) for one in has["spare"]]
        self._banned = [Key(**one) for one in has["banned"]]
        self._revoked: list[tuple[Key, str]] = []

    async def go_on(self, cycles: int) -> None:
        await asyncio.sleep(WARM_SECONDS)
        self._outcome.before = self._rig.usage()
        for cycle in range(cycles):
            await self._cycle(cycle)

    async def _cycle(self, cycle: int) -> None:
        """Run faults while staff revoke a key, then check the recovery."""
        self._shop.hurried = True
        async with asyncio.TaskGroup() as staff:
            staff.create_task(self._revoke(by_site=cycle % 2 == 0, when="during faults"))
            rows = plan(self._outcome.seed, cycle, self._outcome.choice)
            await asyncio.gather(*(self._rig.inflict(faults, self._say) for faults in rows))
            ended = monotonic()
            self._shop.hurried = False
            took = await self._recover(ended)
        await self._look_at_staff(cycle)
        await asyncio.sleep(max(0.0, ended + WELL_SECONDS + LOOK_SECONDS - monotonic()))
        if took <= WELL_SECONDS < (late := self._shop.last_failure - ended):
            self._shop.tell([Violation(Kind.UNWELL, "", f"503 {late:.1f} s after the end of the faults")])

    def _say(self, line: str) -> None:
        self._outcome.tell(f"{monotonic() - self._shop.began:6.1f} s  {line}")

    async def _revoke(self, *, by_site: bool, when: str) -> None:
        """Revoke a key, which is checked after the recovery if it was acknowledged."""
        key = self._spare.pop()
        how = f"{'in the back office' if by_site else 'by command'} {when}"
        if await self._staff.revoke(key, by_site=by_site):
            self._revoked.append((key, how))
            self._outcome.revoked[how] += 1

    async def _recover(self, ended: float) -> float:
        """Wait for the recovery; returns its seconds."""
        shop, redis = self._shop, self._rig.redis
        scripts = await asyncio.to_thread(redis.scripts_run)
        took, what = await self._until_well(ended)
        self._outcome.recoveries.append(took)
        self._say(f"{what} after {took:.1f} s")
        if took > WELL_SECONDS:
            shop.tell([Violation(Kind.UNWELL, "", f"{what} after {took:.1f} s")])
        if await asyncio.to_thread(redis.scripts_run) <= scripts:
            shop.tell([Violation(Kind.FAILOVER, "", f"The primary ran no script for {took:.1f} s")])
        return took

    async def _look_at_staff(self, cycle: int) -> None:
        """Check that changes by staff, also those during the faults, are effective."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._revoke(by_site=True, when="in the calm"))
            group.create_task(self._revoke(by_site=False, when="in the calm"))
            group.create_task(self._ban(by_site=cycle % 2 == 1))
        self._shop.tell(await self._staff.look_at_revoked(self._revoked))
        self._revoked = []

    async def _ban(self, *, by_site: bool) -> None:
        """Get a key banned, lift the ban, and check that."""
        key = self._banned.pop()
        if await self._staff.ban(key):
            self._outcome.bans += 1
            self._shop.tell(await self._staff.unban(key, by_site=by_site))

    async def _until_well(self, ended: float) -> tuple[float, str]:
        """Poll until all workers are healthy; returns the seconds and the last states."""
        while True:
            look = monotonic()
            states = await self._states()
            served = self._shop.replies.total()
            await asyncio.sleep(LOOK_SECONDS)
            refused = self._shop.last_failure > look
            if states == {"ok redis"} and not refused and self._shop.replies.total() > served:
                return look - ended, "well"
            if monotonic() - ended > TIMEOUT:
                return monotonic() - ended, f"{', '.join(sorted(states))}; refuses: {refused}"

    async def _states(self) -> set[str]:
        """Poll the state and the quota store of each worker."""
        found = set()
        for _ in range(LOOKS):
            client = Client(self._rig.port, "", self._shop.run)
            answer = (await client.ask("GET", "/readyz")).json or {}
            found.add(f"{answer.get('status')} {answer.get('quota')}")
            client.close()
        return found
