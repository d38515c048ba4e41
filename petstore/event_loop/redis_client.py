"""redis-py, as the threads use it: a connection for each, to a server or to the nodes of a cluster."""

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

    A command is never sent twice: it may have counted the first time. A connection on which anything went
    wrong is closed, so that the thread's next command opens another: behind one address may stand another
    server by then, and a late reply must not be taken for the next one's.
    """

    def __init__(self, url: str, timeout: float, check: Callable[[Any], None] = lambda run: None) -> None:
        """Connect; `timeout` is in seconds. Raises whatever redis-py raises.

        `check` gets a function that runs a script on a new connection to a single server.
        """
        options: dict[str, Any] = {
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "retry": Retry(NoBackoff(), 0),
        }
        self._local = threading.local()
        self._of_threads: WeakSet[Any] = WeakSet()
        self.redis: Any = redis.Redis.from_url(url, redis_connect_func=partial(greet, check), **options)
        if self.redis.info("cluster").get("cluster_enabled"):
            self.redis.close()
            self.redis = RedisCluster.from_url(url, **options)

    @property
    def is_cluster(self) -> bool:
        """Tell whether there are nodes, each with its part of the accounts."""
        return isinstance(self.redis, RedisCluster)

    def node(self, name: str) -> str:
        """Return the node of a cluster that has this name, as far as is known."""
        try:
            return str(self.redis.get_node_from_key(name).name)
        except (redis.exceptions.RedisError, KeyError, AttributeError):  # No node has it.
            return "none"

    def close(self) -> None:
        if isinstance(self.redis, RedisCluster):  # Its own `close` leaves the nodes' connections open.
            self.redis.disconnect_connection_pools()  # type: ignore[no-untyped-call]
        self.redis.close()
        for connection in list(self._of_threads):
            connection.disconnect()

    def drop(self) -> None:
        """Close this thread's connection; in a cluster, all that nobody uses now."""
        if isinstance(self.redis, RedisCluster):
            self.redis.disconnect_connection_pools()  # type: ignore[no-untyped-call]
        elif (connection := getattr(self._local, "connection", None)) is not None:
            connection.disconnect()

    def run(self, script: Any, names: Command, arguments: Command) -> Any:
        rest = (len(names), *names, *arguments)
        try:
            return self._ask(["EVALSHA", script.sha, *rest])
        except redis.exceptions.NoScriptError:
            return self._ask(["EVAL", script.source, *rest])

    def run_all(self, script: Any, calls: Sequence[tuple[Command, Command]]) -> list[Any]:
        """Return the replies to a script that is run with each of these names and arguments.

        To one server they leave together, in one round trip.
        """
        replies = [self.run(script, *call) for call in calls[:1]]  # Loads the script, if need be.
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

    def _ask(self, command: Command) -> Any:
        """Send the command by this thread's own connection: half of a call is redis-py's way to one.

        In a cluster the client must find the node.
        """
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
        """Return this thread's connection; one that was cut meanwhile is closed, and opens anew."""
        connection: Any = getattr(self._local, "connection", None)
        if connection is None:
            pool = self.redis.connection_pool
            connection = self._local.connection = pool.connection_class(**pool.connection_kwargs)
            self._of_threads.add(connection)
        elif connection._sock is not None and is_readable(connection._sock):
            connection.disconnect()
        return connection


def greet(check: Callable[[Any], None], connection: Any) -> None:
    """Begin a connection; close it if the check raises."""
    connection.on_connect()

    def run(script: Any, names: Command, arguments: Command) -> Any:
        connection.send_command("EVAL", script.source, len(names), *names, *arguments)
        return connection.read_response()

    try:
        with suppress(redis.exceptions.MovedError):  # One of a cluster: its client finds the node.
            check(run)
    except BaseException:
        connection.disconnect()
        raise


def is_readable(socket: Any) -> bool:
    """Tell whether there is anything to read. Where nobody has asked, that is the end, or noise."""
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
