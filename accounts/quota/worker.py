"""What a process that serves does beside its requests."""

from typing import Any

from accounts.quota import publishing, store
from accounts.usage import write_behind
from petstore.observability.metrics import STORE_UP


def begin(**kwargs: Any) -> None:
    """Write usage behind from now on, and tell Redis of what it was not told of."""
    STORE_UP.labels("redis" if store.redis else "database").set(1)
    write_behind.recorder.start(publishing.tell_all)
