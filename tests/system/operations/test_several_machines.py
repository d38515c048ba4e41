"""Several instances on one database, its standby and one Redis: a short run of several_machines.py."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.skips import needs_program
from tests.system.operations import proxy, several_machines
from tests.system.operations.machines import OWN_SERVERS
from tests.system.operations.several_machines import Figure, Shop

pytestmark = [*OWN_SERVERS, needs_program(proxy.program(), "haproxy")]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with several_machines.shop(tmp_path_factory.mktemp("machines")) as shop:
        yield shop


def own_writes(shop: Shop) -> list[Figure]:
    return several_machines.own_writes(shop, writes=80)


@pytest.mark.parametrize(
    "measure",
    [
        own_writes,
        several_machines.reads_from_standby,
        several_machines.paused_replay,
        several_machines.quota,
    ],
)
def test_several_machines_are_as_one(shop: Shop, measure: Callable[[Shop], list[Figure]]) -> None:
    assert [figure for figure in measure(shop) if not figure.good] == []
