"""redis-py for threads: one connection each, to a server or to the nodes of a cluster."""

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

Command = Sequence[Any]


class RedisClient:
    """A client for a server, or for the cluster that it belongs to.

    Commands are not retried: they may have counted. Any error closes the connection, since its address may
    lead to another server by now, and a late reply must not pass for the next one.
    """

    def __init__(self, url: str, timeout: float, check: Callable[[Any], None] = lambda run: None) -> None:
        """Connect; `timeout` is in seconds. Raises what redis-py raises.

        `check` gets a function that runs a script on each new connection to a single server.
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

    def node(self, name: str) -> str:
        """Name the cluster node that has this key, or `none`."""
        try:
            return str(self.redis.get_node_from_key(name).name)
        except (redis.exceptions.RedisError, KeyError, AttributeError):
            return "none"

    def close(self) -> None:
        if isinstance(self.redis, RedisCluster):  # `close` leaves the nodes' connections open.
            self.redis.disconnect_connection_pools()  # type: ignore[no-untyped-call]
        self.redis.close()
        for connection in list(self._connections):
            connection.disconnect()

    def disconnect(self) -> None:
        """Close this thread's connection; in a cluster, all idle ones."""
        if isinstance(self.redis, RedisCluster):
            self.redis.disconnect_connection_pools()  # type: ignore[no-untyped-call]
        elif (connection := getattr(self._local, "connection", None)) is not None:
            connection.disconnect()

    def run(self, script: Any, names: Command, arguments: Command) -> Any:
        rest = (len(names), *names, *arguments)
        try:
            return self._execute(["EVALSHA", script.sha, *rest])
        except redis.exceptions.NoScriptError:
            return self._execute(["EVAL", script.source, *rest])

    def run_all(self, script: Any, calls: Sequence[tuple[Command, Command]]) -> list[Any]:
        """Run a script with each of these keys and arguments; on a single server, in one pipeline."""
        replies = [self.run(script, *call) for call in calls[:1]]  # Loads the script if necessary.
        if isinstance(self.redis, RedisCluster):
            return replies + [self.run(script, *call) for call in calls[1:]]
        commands = [("EVALSHA", script.sha, len(names), *names, *rest) for names, rest in calls[1:]]
        connection = self._connection()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            replies += [connection.read_response() for _ in commands]
        except BaseException:
            connection.disconnect()
            raise
        return replies

    def _execute(self, command: Command) -> Any:
        """Bypass redis-py's connection pool, which is slow; in a cluster, the client must pick a node."""
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
        """Return this thread's connection, which reconnects if the server has closed it."""
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

    def run(script: Any, names: Command, arguments: Command) -> Any:
        connection.send_command("EVAL", script.source, len(names), *names, *arguments)
        return connection.read_response()

    try:
        with suppress(
            redis.exceptions.MovedError
        ):  # A cluster node; the check is repeated with its client.
            check(run)
    except BaseException:
        connection.disconnect()
        raise


def is_readable(socket: Any) -> bool:
    """Check for input, which without a pending command is the end of the stream or garbage."""
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
