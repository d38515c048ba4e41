"""A simulated network that delivers in order, but perhaps late, in parts, or never."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from tests.simulation.world import World

EOF, RESET = "closed", "reset"


class Session(Protocol):
    """A server's side of one connection."""

    def received(self, parts: list[Any]) -> None:
        """Receive data."""

    def lost(self) -> None:
        """Called when the client has closed the connection, or it was cut."""


class Socket:
    """The client's end of a connection, which carries bytes or messages."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.world = network.world
        self.number = next(network.numbers)
        self.session: Session | None = None
        self.inbox: list[Any] = []  # Unread input.
        self.ended: str | None = None  # EOF or RESET, once that has arrived.
        self.is_closed = False  # By the process.
        self.is_cut = False  # By the server or the network.
        self.on_readable: Callable[[], object] | None = None
        self.on_writable: Callable[[], object] | None = None
        self.frozen_until = 0.0
        self._last_to_server = self._last_to_client = 0.0

    def send(self, parts: list[Any]) -> None:
        """Send. A closed connection drops the data."""
        if self.session is not None and not self.is_closed:
            when = self._arrival(self._last_to_server)
            self._last_to_server = when
            self.world.at(when, self._arrive_at_server, parts)

    def reply(self, parts: list[Any], after: float = 0.0) -> None:
        """Send from the server's side."""
        if self.is_cut:
            return
        when = self._arrival(self._last_to_client, after)
        if len(parts) > 1 and self.world.maybe(self.network.splits):
            middle = self.world.chance.randrange(1, len(parts))
            self.world.at(when, self._arrive_at_client, parts[:middle])
            when, parts = self._arrival(when), parts[middle:]
        self._last_to_client = when
        self.world.at(when, self._arrive_at_client, parts)

    def cut(self, how: str) -> None:
        """Close the connection from the server's side or the network; the client notices later."""
        if not self.is_cut:
            self.is_cut = True
            when = self._arrival(self._last_to_client) if how == EOF else self.world.now
            self.world.at(when, self._arrive_end, how)
            if self.session is not None:
                self.session.lost()

    def close(self) -> None:
        """Close from the client's side."""
        if not self.is_closed:
            self.is_closed = True
            self.on_readable = self.on_writable = None
            self.network.open.pop(self.number, None)
            self.network.signalled.pop(self.number, None)
            self.world.at(self._arrival(self._last_to_server), self._arrive_close)

    def take(self) -> list[Any]:
        """Read the input, sometimes only a part of it."""
        parts, self.inbox = self.inbox, []
        if len(parts) > 1 and self.world.maybe(self.network.splits):
            middle = self.world.chance.randrange(1, len(parts))
            parts, self.inbox = parts[:middle], parts[middle:]
        if not self.inbox and not self.ended:
            self.network.signalled.pop(self.number, None)
        return parts

    def thaw(self) -> None:
        """Reset a frozen connection, which loses its late data."""
        if self.frozen_until > self.world.now:
            self.frozen_until = 0.0
            self.cut(RESET)
            self._arrive_end(RESET)

    def _arrival(self, last: float, after: float = 0.0) -> float:
        """Choose when data arrives that follows what arrived last."""
        return max(last, self.frozen_until, self.world.now + after + self.network.latency())

    def _arrive_at_server(self, parts: list[Any]) -> None:
        if self.session is not None and not self.is_cut:
            self.session.received(parts)

    def _arrive_at_client(self, parts: list[Any]) -> None:
        if not self.is_closed and self.ended is None:
            self.inbox += parts
            self.network.signalled[self.number] = self

    def _arrive_end(self, how: str) -> None:
        if not self.is_closed and self.ended is None:
            self.ended = how
            if how == RESET and self.world.maybe(0.5):
                self.inbox.clear()
            self.network.signalled[self.number] = self

    def _arrive_close(self) -> None:
        if not self.is_cut:
            self.is_cut = True
            if self.session is not None:
                self.session.lost()


class Listener(Protocol):
    """The server at an address."""

    def accept(self, socket: Socket) -> Session:
        """Accept a connection."""


class Network:
    """Addresses and their connections."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.numbers = count(1)
        self.open: dict[int, Socket] = {}  # Open sockets of the process.
        self.signalled: dict[int, Socket] = {}  # The readable ones.
        self.listeners: dict[str, Listener] = {}
        self.refuses: set[str] = set()  # Addresses without a listener.
        self.swallows: set[str] = set()  # Unresponsive addresses.
        self.closes_at_accept = 0.0  # Probability.
        self.closes_within = 0.004  # Seconds.
        self.splits = 0.0  # The probability that data arrives in two parts.
        self.delays = 0.0  # The probability that a packet is late.
        self.longest_delay = 0.3  # Seconds.
        self.usual_latency = 0.0005  # Seconds.

    def latency(self) -> float:
        chance = self.world.chance
        if self.delays and chance.random() < self.delays:
            return chance.uniform(0, self.longest_delay)
        return self.usual_latency * chance.random()

    def connect(self, address: str, connected: Callable[[Socket | None], object]) -> Socket:
        """Connect. `connected` gets the socket, or None if that is refused, or is never called."""
        socket = Socket(self)
        self.open[socket.number] = socket
        self.world.after(self.latency(), self._arrive, address, socket, connected)
        return socket

    def disconnect(self, address: str) -> float:
        """Refuse connections to an address or drop all packets for a while; returns the seconds."""
        seconds = self.world.chance.uniform(0.01, 1.5)
        outages = self.swallows if self.world.maybe(0.3) else self.refuses
        self.world.note(address, "is unavailable", seconds, outages is self.swallows)
        outages.add(address)
        self.world.after(seconds, outages.discard, address)
        return seconds

    def _arrive(self, address: str, socket: Socket, connected: Callable[[Socket | None], object]) -> None:
        if socket.is_closed or address in self.swallows:
            return
        if address in self.refuses:
            self.world.after(self.latency(), connected, None)
            return
        socket.session = self.listeners[address].accept(socket)
        self.world.after(self.latency(), connected, socket)
        if self.closes_at_accept and self.world.maybe(self.closes_at_accept):
            how = self.world.chance.choice((EOF, RESET))
            self.world.note("will close", socket.number, how)
            self.world.after(self.world.chance.uniform(0, self.closes_within), socket.cut, how)
