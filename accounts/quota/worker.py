"""What a process that serves does beside its requests."""

from accounts.quota import changes, store, usage
from petstore.metrics import STORE_UP


def start_worker() -> None:
    """Begin it: usage is written behind, and Redis is told of what it was not told of."""
    STORE_UP.labels("redis" if store.redis else "database").set(1)
    usage.recorder.start(changes.tell_all)
