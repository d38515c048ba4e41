"""A redis-py client for threads, each of which has its own connection to a single server."""

import select
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakSet

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry


class RedisClient:
    """A client for a server, or for the cluster that the server belongs to.

    It retries no command that Redis may have executed, because it may have counted a request. Any error
    except NOSCRIPT closes the connection: its address may lead to another server by now, and the next
    command must not receive a late reply.
    """

    def __init__(self, url: str, timeout: float, check: Callable[[Any], None] = lambda run: None) -> None:
        """Connect. `timeout` is in seconds. Raises redis-py's exceptions.

        On each new connection to a single server, `check` receives a function that runs scripts there.
        """
        options: dict[str, Any] = {
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "retry": Retry(NoBackoff(), 0),
        }
        self._local = threading.local()
        self._connections: WeakSet[Any] = WeakSet()
        self.redis: Any = redis.Redis.from_url(
            url, redis_connect_func=partial(on_connect, check), **options
        )
        if self.redis.info("cluster").get("cluster_enabled"):
            self.redis.close()
            self.redis = RedisCluster.from_url(url, **options)

    @property
    def is_cluster(self) -> bool:
        return isinstance(self.redis, RedisCluster)

    def get_node_name(self, key: str) -> str:
        """Return the name of the cluster node that stores a key, or `none`."""
        try:
            return str(self.redis.get_node_from_key(key).name)
        except (redis.exceptions.RedisError, KeyError, AttributeError):
            return "none"

    def close(self) -> None:
        if isinstance(self.redis, RedisCluster):  # `close` alone leaves the nodes' connections open.
            self.redis.disconnect_connection_pools()  # type: ignore[no-untyped-call]
        self.redis.close()
        for connection in list(self._connections):
            connection.disconnect()

    def disconnect(self) -> None:
        """Close this thread's connection, or all connections to a cluster."""
        if isinstance(self.redis, RedisCluster):
            self.redis.disconnect_connection_pools()  # type: ignore[no-untyped-call]
        elif (connection := getattr(self._local, "connection", None)) is not None:
            connection.disconnect()

    def run(self, script: Any, keys: Sequence[Any], arguments: Sequence[Any]) -> Any:
        parameters = (len(keys), *keys, *arguments)
        try:
            return self._execute(["EVALSHA", script.sha, *parameters])
        except redis.exceptions.NoScriptError:
            return self._execute(["EVAL", script.source, *parameters])

    def run_all(self, script: Any, calls: Sequence[tuple[Sequence[Any], Sequence[Any]]]) -> list[Any]:
        """Run a script once for each pair of keys and arguments, pipelined on a single server."""
        replies = [self.run(script, *call) for call in calls[:1]]  # Loads the script if necessary.
        if isinstance(self.redis, RedisCluster):
            return replies + [self.run(script, *call) for call in calls[1:]]
        commands = [("EVALSHA", script.sha, len(keys), *keys, *arguments) for keys, arguments in calls[1:]]
        connection = self._connection()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            replies += [connection.read_response() for _ in commands]
        except BaseException:
            connection.disconnect()
            raise
        return replies

    def _execute(self, command: Sequence[Any]) -> Any:
        """Bypass redis-py's slow connection pool. In a cluster, only redis-py can choose the node."""
        if isinstance(self.redis, RedisCluster):
            return self.redis.execute_command(*command)  # type: ignore[no-untyped-call]
        connection = self._connection()
        try:
            connection.send_command(*command)
            return connection.read_response()
        except redis.exceptions.NoScriptError:
            raise
        except BaseException:
            connection.disconnect()
            raise

    def _connection(self) -> Any:
        """Return this thread's connection, disconnected if the server has closed it."""
        connection: Any = getattr(self._local, "connection", None)
        if connection is None:
            pool = self.redis.connection_pool
            connection = self._local.connection = pool.connection_class(**pool.connection_kwargs)
            self._connections.add(connection)
        elif connection._sock is not None and is_readable(connection._sock):
            connection.disconnect()
        return connection


def on_connect(check: Callable[[Any], None], connection: Any) -> None:
    connection.on_connect()

    def run(script: Any, keys: Sequence[Any], arguments: Sequence[Any]) -> Any:
        connection.send_command("EVAL", script.source, len(keys), *keys, *arguments)
        return connection.read_response()

    try:
        # A cluster node may raise MovedError. The check is then repeated with the cluster's client.
        with suppress(redis.exceptions.MovedError):
            check(run)
    except BaseException:
        connection.disconnect()
        raise


def is_readable(socket: Any) -> bool:
    """Check for input, which can only be the end of the stream or garbage when no command is pending."""
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
