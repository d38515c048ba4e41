"""Lua for the simulated Redis, which runs the real quota scripts."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from lupa.lua51 import LuaRuntime

Call = Callable[..., Any]


class ScriptError(Exception):
    """An error reply."""


class Lua:
    """One interpreter for all seeds, which caches compiled scripts."""

    def __init__(self) -> None:
        self._runtime = LuaRuntime(encoding=None)
        self._compiled: dict[bytes, Any] = {}
        self._call: Call = lambda *_: None
        self._globals = self._runtime.globals()
        self._globals[b"redis"] = self._runtime.table_from({b"call": self._called, b"pcall": self._called})
        self._table = self._runtime.table_from
        self._table_type = type(self._table([]))

    def digest(self, source: bytes) -> bytes:
        return hashlib.sha1(source).hexdigest().encode()

    def run(self, source: bytes, names: Sequence[bytes], arguments: Sequence[bytes], call: Call) -> Any:
        """Run a script. Raises ScriptError."""
        script = self._compiled.get(source)
        if script is None:
            script = self._compiled[source] = self._runtime.compile(source)
        self._call = call
        self._globals[b"KEYS"] = self._table(names)
        self._globals[b"ARGV"] = self._table(arguments)
        return self._converted(script())

    def _called(self, command: bytes, *arguments: Any) -> Any:
        reply = self._call(command, *map(as_bytes, arguments))
        if type(reply) is list:
            return self._table([False if one is None else one for one in reply])
        return False if reply is None else reply

    def _converted(self, value: Any) -> Any:
        """Convert like Redis: numbers lose their fraction, and nil ends a list."""
        if type(value) is self._table_type:
            return [self._converted(value[index]) for index in range(1, len(value) + 1)]
        if isinstance(value, bool):
            return 1 if value else None
        return int(value) if isinstance(value, float) else value


def as_bytes(value: Any) -> bytes:
    """Format a number like Redis for a command called from Lua."""
    if isinstance(value, bytes):
        return value
    return b"%d" % value if isinstance(value, int) else b"%.17g" % value


LUA = Lua()
