"""redis-py, as the threads use it: a connection for each, to a server or to the nodes of a cluster."""

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry


class RedisClient:
    """A client for a server, or for the cluster that it belongs to.

    A command is never sent twice: it may have counted the first time.
    """

    def __init__(self, url: str, timeout: float) -> None:
        """Connect; `timeout` is in seconds. Raises whatever redis-py raises."""
        options: dict[str, Any] = {
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "retry": Retry(NoBackoff(), 0),
        }
        self._local = threading.local()
        self._of_threads: WeakSet[Any] = WeakSet()
        self._client: redis.Redis | RedisCluster = redis.Redis.from_url(url, **options)
        if self._client.info("cluster").get("cluster_enabled"):
            self._client.close()
            self._client = RedisCluster.from_url(url, **options)

    def close(self) -> None:
        """Close every connection; the next command opens another."""
        self._client.close()
        for connection in list(self._of_threads):
            connection.disconnect()

    def run(self, source: str, sha: str, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Return a script's reply."""
        try:
            return self._evalsha(sha, names, arguments)
        except redis.exceptions.NoScriptError:
            return self._client.eval(source, len(names), *names, *arguments)

    def _evalsha(self, sha: str, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Send the command by this thread's own connection: half of a call is redis-py's way to one.

        In a cluster the client must find the node.
        """
        if isinstance(self._client, RedisCluster):
            return self._client.evalsha(sha, len(names), *names, *arguments)
        connection: Any = getattr(self._local, "connection", None)
        if connection is None:
            pool = self._client.connection_pool
            connection = self._local.connection = pool.connection_class(**pool.connection_kwargs)
            self._of_threads.add(connection)
        connection.send_command("EVALSHA", sha, len(names), *names, *arguments)
        return connection.read_response()
