"""Several instances on one database, its standby and one Redis: a short run of several_machines.py."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.operations import several_machines
from tests.operations.machines import OWN_SERVERS
from tests.operations.several_machines import Figure, Shop

pytestmark = OWN_SERVERS


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    if shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        pytest.skip("No haproxy is installed.")
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
