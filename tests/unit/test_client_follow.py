"""`events.follow` of the Python package during an outage."""

import threading
from typing import Any

import pytest

from petstore_client import Client, ConnectionFailedError


class Pauses(threading.Event):
    """Ends the iteration after a number of pauses, none of which takes any time."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count, self.seconds = count, list[float | None]()

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        if len(self.seconds) == self.count:
            self.set()
        return self.is_set()


def test_outage_of_a_day_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: Any) -> None:
        raise ConnectionFailedError

    monkeypatch.setattr(Client, "_send", fail)
    client, pauses = Client("key", base_url="http://unused/v1"), Pauses(24 * 60)
    assert list(client.events.follow(interval=5, stop=pauses)) == []
    assert pauses.seconds[:6] == [5, 5, 8, 16, 32, 60]
    assert set(pauses.seconds[6:]) == {60}
