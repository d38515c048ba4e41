"""Reads from streaming replicas, which always include the account's own writes and are never too old."""

import time
from time import monotonic
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError

from accounts.quota import store
from accounts.quota.limits import DAY, SECOND
from petstore.api.context import Caller
from petstore.db import monitor, replicas
from petstore.db.monitor import Server, WalPosition
from tests.conftest import COMMITTED
from tests.support.quota import ADDRESS, Sender, parse

LONG_AGO = 3_600 * SECOND


@pytest.fixture
def two_replicas(monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """Two replicas that have just replayed everything."""
    servers = [Server("default"), Server("replica1"), Server("replica2")]
    for replica in servers[1:]:
        replica.primary, replica.is_standby, replica.visible_until = servers[0], True, monotonic()
    monkeypatch.setattr(monitor, "servers", {server.alias: server for server in servers})
    monkeypatch.setattr(replicas, "get_aliases", lambda: ("replica1", "replica2"))
    return servers[1:]


# The time since the account's last write


@pytest.fixture
def sender(db: None) -> Sender:
    return Sender(per_minute=1000, per_day=100_000)


def admit(sender: Sender, key: int = 0, *, may_write: bool = False) -> Caller:
    caller, _ = store.admit(parse(sender.texts[key]), ADDRESS, sender.now, may_write=may_write)
    return caller


def get_time_since_write(sender: Sender, key: int = 0, *, may_write: bool = False) -> int:
    return admit(sender, key, may_write=may_write).time_since_write


def test_request_knows_the_time_since_the_last_write(sender: Sender) -> None:
    sender.add_key()
    assert get_time_since_write(sender, may_write=True) == 0
    sender.wait(2)
    assert get_time_since_write(sender) == 2 * SECOND
    sender.wait(3)
    assert get_time_since_write(sender, key=1) == 5 * SECOND  # Another key of the account.
    assert get_time_since_write(sender, key=1, may_write=True) == 0
    sender.wait(1)
    assert get_time_since_write(sender) == SECOND


def test_last_write_is_known_beyond_the_minute_and_the_day(sender: Sender) -> None:
    get_time_since_write(sender, may_write=True)
    sender.wait(DAY / SECOND)
    assert get_time_since_write(sender) == DAY


def test_clock_set_back_counts_as_a_recent_write(sender: Sender) -> None:
    get_time_since_write(sender, may_write=True)
    sender.wait(-3_600)
    assert get_time_since_write(sender) <= 0


def test_end_of_a_long_write_is_recorded(sender: Sender) -> None:
    sender.now = time.time_ns() // 1000 - 3_600 * SECOND  # The write ends now.
    store.record_write(admit(sender, may_write=True))
    sender.wait(3_600)
    assert get_time_since_write(sender) < 60 * SECOND


# The choice of the database


def test_account_with_a_recent_write_reads_the_primary(two_replicas: list[Server], settings: Any) -> None:
    settings.REPLICA_MAX_LAG = 5
    pinning_period = (5 + replicas.WRITE_SECONDS) * SECOND
    assert replicas.choose_alias(1, 0) == "default"
    assert replicas.choose_alias(1, pinning_period) == "default"
    assert replicas.choose_alias(1, pinning_period + 1) != "default"


def test_account_keeps_its_replica_while_that_is_healthy(two_replicas: list[Server]) -> None:
    chosen = {replicas.choose_alias(7, LONG_AGO) for _ in range(10)}
    assert len(chosen) == 1
    assert {replicas.choose_alias(number, LONG_AGO) for number in range(10)} == {"replica1", "replica2"}
    next(server for server in two_replicas if server.alias in chosen).unavailable = True
    others = {replicas.choose_alias(7, LONG_AGO) for _ in range(10)}
    assert others | chosen == {"replica1", "replica2"}


def test_unavailable_or_lagging_replica_is_not_read(two_replicas: list[Server], settings: Any) -> None:
    settings.REPLICA_MAX_LAG = 5
    two_replicas[0].unavailable = True
    two_replicas[1].visible_until -= 4
    assert replicas.get_states() == {"replica1": "unavailable", "replica2": "ok"}
    assert replicas.choose_alias(1, LONG_AGO) == "replica2"
    two_replicas[1].visible_until -= 2
    assert replicas.get_states() == {"replica1": "unavailable", "replica2": "lagging"}
    assert replicas.choose_alias(1, LONG_AGO) == "default"


def test_without_replicas_the_primary_is_read() -> None:
    assert replicas.choose_alias(1, LONG_AGO) == "default"
    assert replicas.get_states() == {}


# The lag of a replica


def test_replica_shows_the_writes_that_it_has_replayed(two_replicas: list[Server]) -> None:
    replica = two_replicas[0]
    replica.visible_until = float("-inf")
    written = (WalPosition(10.0, 100), WalPosition(11.0, 200), WalPosition(12.0, 300))
    for replayed, until in ((50, float("-inf")), (100, 10.0), (299, 11.0), (300, 12.0), (1000, 12.0)):
        replica._update_lag(WalPosition(13.0, replayed), written)
        assert replica.visible_until == until


def test_recovered_primary_does_not_reset_visible_until(two_replicas: list[Server]) -> None:
    replica = two_replicas[0]
    replica.visible_until = 10.0
    replica._update_lag(WalPosition(13.0, 100), ())
    assert replica.visible_until == 10.0


def test_standby_that_was_promoted_is_not_read(two_replicas: list[Server]) -> None:
    replica = two_replicas[0]
    replica.is_standby = False
    replica._update_lag(WalPosition(monotonic(), 100), (WalPosition(monotonic(), 100),))
    assert replicas.get_state(replica.alias) == "lagging"


# Failures of a replica


def test_read_that_fails_on_a_replica_is_retried_on_the_primary(two_replicas: list[Server]) -> None:
    aliases = []

    def run(alias: str) -> str:
        aliases.append(alias)
        if alias == "replica1":
            raise OperationalError("canceling statement due to conflict with recovery")
        return "rows"

    assert replicas.read("replica1", run) == "rows"
    assert aliases == ["replica1", "default"]


def test_read_that_fails_on_the_primary_is_not_retried(two_replicas: list[Server]) -> None:
    aliases = []

    def run(alias: str) -> str:
        aliases.append(alias)
        raise DatabaseError

    with pytest.raises(DatabaseError):
        replicas.read("default", run)
    assert aliases == ["default"]


@COMMITTED
def test_end_of_a_long_write_is_recorded_before_its_response(
    api: Any, category: Any, two_replicas: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[Caller] = []
    monkeypatch.setattr("accounts.quota.store.record_write", recorded.append)
    body = {"name": "Rex", "categoryId": category.id}
    assert api.post("/pets", body).status_code == 201
    assert recorded == []
    monkeypatch.setattr(replicas, "WRITE_SECONDS", -1)  # Every write takes longer.
    assert api.get("/pets").status_code == 200
    assert recorded == []
    assert api.post("/pets", body).status_code == 201
    assert [caller.public_id for caller in recorded] == [parse(api.key).public_id]
