"""One run: cycles of faults and recovery while customers send requests and staff revoke keys."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic

from tests.chaos.checks import RECOVERY_SECONDS, Kind, Violation, check_limits
from tests.chaos.client import Client
from tests.chaos.customers import CALM_PAUSE, FAULT_PAUSE, Finding, Shop
from tests.chaos.faults import DURATIONS, SHORT_DURATIONS, plan
from tests.chaos.follower import Follower, check_feed, outbox_is_empty
from tests.chaos.journal import Account
from tests.chaos.records import Records, check_records
from tests.chaos.rig import Rig, Usage, rig
from tests.chaos.staff import LOGIN, Key, Staff
from tests.support.servers import wait_until

TIMEOUT = 12.0  # Seconds until the next cycle starts anyway.
WARM_UP_SECONDS = 1.5  # Without faults, at the start.
POLL_SECONDS = 0.3  # Within which no request may fail.
POLL_CONNECTIONS = 10  # That poll /readyz, to reach each worker.
CYCLE_SECONDS = 12.0  # Approximately, on an idle machine.
MAX_MIB_GROWTH = 100.0  # A worker keeps the memory that its first 100,000 requests needed.
MAX_SOCKET_GROWTH = 40  # At the start of the load, not every thread and writer has its connection yet.
PETS = 200  # That are never ordered, so lists are full.
PER_DAY_PER_SECOND = 5  # Small daily limits by the seconds of the run: reached in half of it.
SMALL_PER_MINUTE = 200  # Is reached, but without enough rejections in a minute for a ban.


def choose_limits(seconds: float) -> dict[str, tuple[int, int, str]]:
    """The accounts' limits per minute and day, and which of them they reach."""
    unlimited = {f"Unlimited {n}": (1_000_000_000 + n, 2_000_000_000 + n, "") for n in range(4)}
    minute = {f"Minute {n}": (SMALL_PER_MINUTE + n, 3_000_000_000 + n, "minute") for n in range(2)}
    per_day = int(max(100, PER_DAY_PER_SECOND * seconds))
    return unlimited | minute | {f"Day {n}": (4_000_000_000 + n, per_day + n, "day") for n in range(2)}


async def run(folder: Path, template: str, *, seed: int, seconds: float, is_short: bool) -> list[Finding]:
    """Run for about this many seconds, on a copy of a migrated database, and return the violations.

    A short run has shorter faults, and does not wait for a late failure after the recovery.
    """
    limits = choose_limits(seconds)
    cycles = max(1, round(seconds / CYCLE_SECONDS))
    wanted = {
        "accounts": {name: numbers[:2] for name, numbers in limits.items()},
        "spare": 3 * cycles, "banned": cycles, "pets": PETS, "staff": LOGIN,
    }  # fmt: skip
    async with rig(folder, template, wanted) as service_rig:
        keys = {name: one["key"] for name, one in service_rig.rows["accounts"].items()}
        accounts = [Account(name, keys[name], *values) for name, values in limits.items()]
        run_id = f"chaos-{seed}"
        shop = Shop(service_rig.port, accounts, run_id)
        async with Staff.signed_in(service_rig.service, run_id) as staff, asyncio.TaskGroup() as group:
            follower = Follower(shop, shop.journals[0])
            busy = group.create_task(shop.keep_busy(seed, follower))
            await asyncio.sleep(WARM_UP_SECONDS)
            before = service_rig.usage()
            chaos = Chaos(service_rig, shop, staff, seed, is_short=is_short)
            for cycle in range(cycles):
                await chaos.run_cycle(cycle)
            shop.stop()
            await busy
        sequenced = partial(outbox_is_empty, service_rig.database)
        await asyncio.to_thread(wait_until, sequenced, RECOVERY_SECONDS)
        await follower.read_all()
        with suppress(AssertionError):  # Reported by `check_final_state`.
            max_sockets = before.sockets + MAX_SOCKET_GROWTH
            await asyncio.to_thread(
                wait_until, lambda: service_rig.usage().sockets <= max_sockets, RECOVERY_SECONDS
            )
        check_final_state(service_rig, shop, before, follower)
        return shop.findings


def check_final_state(service_rig: Rig, shop: Shop, before: Usage, follower: Follower) -> None:
    """Check the state after the last request."""
    after = service_rig.usage()
    if after.mib > before.mib + MAX_MIB_GROWTH:
        shop.report([Violation(Kind.LEFT, "", f"{before.mib:.0f} MiB, then {after.mib:.0f}")])
    if after.sockets > before.sockets + MAX_SOCKET_GROWTH:
        shop.report([Violation(Kind.LEFT, "", f"{before.sockets} sockets, then {after.sockets}")])
    for journal in shop.journals:
        shop.report(check_limits(journal))
    records = Records.read(service_rig.database, shop.run)
    shop.report(check_records(shop, records))
    shop.report(check_feed(follower.events, shop.journals[0].account.name, shop.run, records))


class Chaos:
    """The cycles."""

    def __init__(self, service_rig: Rig, shop: Shop, staff: Staff, seed: int, *, is_short: bool) -> None:
        self._rig = service_rig
        self._shop = shop
        self._staff = staff
        self._seed = seed
        self._is_short = is_short
        self._spare = [Key(**one) for one in service_rig.rows["spare"]]
        self._banned = [Key(**one) for one in service_rig.rows["banned"]]
        self._revoked: list[tuple[Key, str]] = []

    async def run_cycle(self, cycle: int) -> None:
        """Inject faults while staff revoke a key, then check the recovery."""
        self._shop.pause = FAULT_PAUSE
        durations = SHORT_DURATIONS if self._is_short else DURATIONS
        async with asyncio.TaskGroup() as staff:
            staff.create_task(self._revoke(by_site=cycle % 2 == 0, when="during faults"))
            await self._rig.inject(plan(self._seed, cycle, durations))
            ended = monotonic()
            self._shop.pause = CALM_PAUSE
            seconds = await self._recover(ended)
        await self._check_staff(cycle)
        if not self._is_short:
            await asyncio.sleep(max(0.0, ended + RECOVERY_SECONDS + POLL_SECONDS - monotonic()))
        if seconds <= RECOVERY_SECONDS < (late := self._shop.last_failure - ended):
            detail = f"503 {late:.1f} s after the end of the faults"
            self._shop.report([Violation(Kind.NOT_READY, "", detail)])

    async def _revoke(self, *, by_site: bool, when: str) -> None:
        """Revoke a key; if that is acknowledged, it is checked after the recovery."""
        key = self._spare.pop()
        how = f"{'in the back office' if by_site else 'by command'} {when}"
        if await self._staff.revoke(key, by_site=by_site):
            self._revoked.append((key, how))

    async def _recover(self, ended: float) -> float:
        """Wait for the recovery; returns its seconds."""
        seconds, state = await self._wait_until_ready(ended)
        if seconds > RECOVERY_SECONDS:
            self._shop.report([Violation(Kind.NOT_READY, "", f"{state} after {seconds:.1f} s")])
        return seconds

    async def _check_staff(self, cycle: int) -> None:
        """Check that changes by staff, also those during the faults, are effective."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._revoke(by_site=True, when="after recovery"))
            group.create_task(self._revoke(by_site=False, when="after recovery"))
            group.create_task(self._ban_and_unban(by_site=cycle % 2 == 1))
        self._shop.report(await self._staff.check_revoked(self._revoked))
        self._revoked = []

    async def _ban_and_unban(self, *, by_site: bool) -> None:
        key = self._banned.pop()
        if await self._staff.ban(key):
            self._shop.report(await self._staff.unban(key, by_site=by_site))

    async def _wait_until_ready(self, ended: float) -> tuple[float, str]:
        """Poll until all workers are ready; returns the seconds and the last states."""
        while True:
            polled = monotonic()
            states = await self._poll_workers()
            served = self._shop.replies
            await asyncio.sleep(POLL_SECONDS)
            failed = self._shop.last_failure > polled
            if states == {"ok"} and not failed and self._shop.replies > served:
                return polled - ended, "ready"
            if monotonic() - ended > TIMEOUT:
                return monotonic() - ended, f"{', '.join(sorted(states))}, with 503: {failed}"

    async def _poll_workers(self) -> set[str]:
        """The readiness of each worker."""
        found = set()
        for _ in range(POLL_CONNECTIONS):
            client = Client(self._rig.port, "", self._shop.run)
            body = (await client.send("GET", "/readyz")).json or {}
            found.add(str(body.get("status")))
            client.close()
        return found
