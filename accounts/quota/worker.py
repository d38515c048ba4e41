"""What a process that serves does beside its requests."""

from accounts.quota import publishing, store
from accounts.usage import write_behind
from petstore.observability.metrics import STORE_UP


def start_worker() -> None:
    """Begin it: usage is written behind, and Redis is told of what it was not told of."""
    STORE_UP.labels("redis" if store.redis else "database").set(1)
    write_behind.recorder.start(publishing.tell_all)
