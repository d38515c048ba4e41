"""A simulated Redis with a few commands on a dictionary of hashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hiredis

from tests.simulation.lua import LUA, ScriptError
from tests.simulation.network import EOF, RESET, Network, Socket
from tests.simulation.world import EPOCH, World

ADDRESS = "redis:6379"
WRITES = {b"SET", b"HSET", b"DEL", b"PEXPIRE"}
SLOW = {b"ECHO", b"EVALSHA", b"EVAL"}
READ_ONLY = "READONLY You can't write against a read only replica."


class RedisNode:
    """One server: its data and its role."""

    def __init__(self, world: World, data: dict[bytes, dict[bytes, bytes]]) -> None:
        self.world = world
        self.data = data
        self.expires: dict[bytes, float] = {}
        self.scripts: dict[bytes, bytes] = {}
        self.is_replica = False
        self.slow = 0.0  # The probability of a slow command.
        self.slowest = 0.2  # Seconds.
        self.sessions: list[RedisSession] = []

    def execute(self, command: list[bytes]) -> Any:
        """Run a command; returns error replies as ScriptErrors."""
        name = command[0].upper()
        try:
            if name == b"EVALSHA":
                source = self.scripts.get(command[1])
                if source is None:
                    return ScriptError("NOSCRIPT No matching script. Please use EVAL.")
                return self._run(source, command)
            if name == b"EVAL":
                self.scripts[LUA.digest(command[1])] = command[1]
                return self._run(command[1], command)
            return self.call(name, *command[1:])
        except ScriptError as error:
            return error

    def call(self, name: bytes, *arguments: bytes) -> Any:
        if name in WRITES and self.is_replica:
            raise ScriptError(READ_ONLY)
        found: Callable[..., Any] | None = getattr(self, f"_{name.decode().lower()}", None)
        if found is None:
            raise ScriptError(f"ERR unknown command '{name.decode()}'")
        return found(*arguments)

    def choose_duration(self) -> float:
        return self.slowest * (1 - self.world.chance.random() ** 2 / 2)

    def cut_all(self, how: str) -> None:
        for session in list(self.sessions):
            session.socket.cut(how)

    def _run(self, source: bytes, command: list[bytes]) -> Any:
        names = int(command[2])
        return LUA.run(source, command[3 : 3 + names], command[3 + names :], self.call)

    def _hash(self, key: bytes) -> dict[bytes, bytes] | None:
        if key in self.expires and self.expires[key] <= self.world.now:
            self._del(key)
        return self.data.get(key)

    def _ping(self) -> Any:
        return b"PONG"

    def _echo(self, text: bytes) -> Any:
        return text

    def _auth(self, *_: bytes) -> Any:
        return b"OK"

    def _select(self, _: bytes) -> Any:
        return b"OK"

    def _exists(self, key: bytes) -> int:
        return int(self._hash(key) is not None)

    def _del(self, key: bytes) -> int:
        self.expires.pop(key, None)
        return int(self.data.pop(key, None) is not None)

    def _set(self, key: bytes, value: bytes, *options: bytes) -> bytes | None:
        if b"NX" in options and self._hash(key) is not None:
            return None
        self.data[key] = {b"": value}
        return b"OK"

    def _get(self, key: bytes) -> bytes | None:
        return self._hget(key, b"")

    def _hget(self, key: bytes, field: bytes) -> bytes | None:
        return (self._hash(key) or {}).get(field)

    def _hgetall(self, key: bytes) -> list[bytes]:
        return [part for pair in (self._hash(key) or {}).items() for part in pair]

    def _hmget(self, key: bytes, *fields: bytes) -> list[bytes | None]:
        found = self._hash(key) or {}
        return [found.get(field) for field in fields]

    def _hset(self, key: bytes, *pairs: bytes) -> int:
        if self._hash(key) is None:
            self.data[key] = {}
        self.data[key].update(zip(pairs[::2], pairs[1::2], strict=True))
        return len(pairs) // 2

    def _pexpire(self, key: bytes, milliseconds: bytes) -> int:
        if self._hash(key) is None:
            return 0
        self.expires[key] = self.world.now + int(milliseconds) / 1000
        return 1

    def _info(self, _: bytes) -> bytes:
        return b"maxmemory:0\r\nmaxmemory_policy:noeviction\r\n"

    def _time(self) -> list[bytes]:
        microseconds = round((EPOCH + self.world.now) * 1_000_000)
        return [b"%d" % (microseconds // 1_000_000), b"%d" % (microseconds % 1_000_000)]


class RedisSession:
    """The server's side of a connection."""

    def __init__(self, node: RedisNode, socket: Socket) -> None:
        self.node = node
        self.socket = socket
        self._reader = hiredis.Reader()
        node.sessions.append(self)

    def received(self, parts: list[Any]) -> None:
        """Run complete commands and reply."""
        self._reader.feed(b"".join(parts))
        replies = b""
        while command := self._reader.gets():
            self.node.world.note("redis", self.socket.number, command[0], command[-1])
            reply = encode_values(self.node.execute(command))
            if command[0] in SLOW and self.node.world.maybe(self.node.slow):
                self.socket.reply(in_parts(replies + reply, self.node.world), self.node.choose_duration())
                replies = b""
            else:
                replies += reply
        if replies:
            self.socket.reply(in_parts(replies, self.node.world))

    def lost(self) -> None:
        if self in self.node.sessions:
            self.node.sessions.remove(self)


class SimulatedRedis:
    """The address of the current primary."""

    def __init__(self, world: World, network: Network) -> None:
        self.world = world
        self.network = network
        self.node = RedisNode(world, {})
        self.old: list[RedisNode] = []
        self.too_many = 0.0  # The probability that a connection is rejected for too many clients.
        network.listeners[ADDRESS] = self

    def accept(self, socket: Socket) -> RedisSession:
        session = RedisSession(self.node, socket)
        if self.too_many and self.world.maybe(self.too_many):
            self.world.note("redis has too many clients", socket.number)
            socket.reply([b"-ERR max number of clients reached\r\n"])
            socket.cut(EOF)
        return session

    def heal(self) -> None:
        self.too_many = 0.0
        for node in (self.node, *self.old):
            node.slow = 0.0

    # --- Actions of the adversary ----------------------------------------------------------------

    def restart(self) -> None:
        """Lose all scripts and connections, and perhaps the data."""
        self.world.note("redis restarts")
        self.node.cut_all(self.world.chance.choice((EOF, RESET)))
        self.node.scripts.clear()
        if self.world.maybe(0.5):
            self.node.data.clear()

    def become_unavailable(self) -> None:
        """Be down or unreachable for a while."""
        self.node.cut_all(RESET)
        self.network.disconnect(ADDRESS)

    def fail_over(self) -> None:
        """Fail over: the old server keeps its connections, as a replica."""
        self.world.note("redis fails over")
        old, self.node = self.node, RedisNode(self.world, self.node.data)
        self.node.expires = old.expires
        self.node.slow, self.node.slowest = old.slow, old.slowest
        old.is_replica = True
        self.old.append(old)

    def freeze(self) -> None:
        """Deliver nothing on the open connections for a while."""
        until = self.world.now + self.world.chance.uniform(0.05, 2.0)
        self.world.note("redis connections freeze until", until)
        for node in (self.node, *self.old):
            for session in node.sessions:
                session.socket.frozen_until = until

    def cut_each(self) -> None:
        """Close or reset each connection."""
        for node in (self.node, *self.old):
            for session in list(node.sessions):
                how = self.world.chance.choice((EOF, RESET))
                self.world.note("cut", session.socket.number, how)
                session.socket.cut(how)

    def flush_scripts(self) -> None:
        """Run SCRIPT FLUSH."""
        self.world.note("redis flushes its scripts")
        self.node.scripts.clear()


def encode_values(reply: Any) -> bytes:
    """Encode a reply in Redis's protocol."""
    if isinstance(reply, ScriptError):
        return f"-{reply}\r\n".encode()
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, list):
        return b"*%d\r\n%b" % (len(reply), b"".join(map(encode_values, reply)))
    if reply in (b"OK", b"PONG"):
        return b"+%b\r\n" % reply
    return b"$%d\r\n%b\r\n" % (len(reply), reply)


def in_parts(data: bytes, world: World) -> list[bytes]:
    """Split the bytes for the network."""
    if len(data) < 2:
        return [data]
    middle = world.chance.randrange(1, len(data))
    return [data[:middle], data[middle:]]
