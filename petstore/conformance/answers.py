"""An answer of a deployment, and how a check ends that does not pass."""

from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

import orjson


class BrokenError(Exception):
    """The deployment does not do what the contract says."""


class NothingToCheckError(Exception):
    """The deployment has nothing to check this on, for example no pets. That is no fault."""


class NotRunError(Exception):
    """The check could not be carried out: the quota is low, or the key lacks a scope."""


class UnreachableError(Exception): ...


@dataclass(frozen=True)
class Answer:
    """What came back. `sent` says what was asked: method and path with its query."""

    sent: str
    status: int
    headers: Message
    body: bytes
    keyed: bool  # Whether the key was sent.
    came_at: float = field(default_factory=time)  # Unix time, by our clock.

    @property
    def now(self) -> float:
        """The Unix time of the answer, by the deployment's clock if it tells it."""
        try:
            return parsedate_to_datetime(self.headers["Date"]).timestamp()
        except (TypeError, ValueError):
            return self.came_at

    def expect(self, holds: object, otherwise: str) -> None:
        """Raise BrokenError with this sentence about the answer unless something holds."""
        if not holds:
            raise BrokenError(f"{self.sent}: {otherwise}")

    def expect_status(self, status: int, what: str = "") -> "Answer":
        """Return the answer. Raises BrokenError, with what it was asked with, for another status."""
        self.expect(self.status == status, f"{what}answers {self.status}, not {status}.")
        return self

    def header(self, name: str) -> str:
        """Return a header. Raises BrokenError without it."""
        self.expect(name in self.headers, f"the header {name} is missing.")
        return str(self.headers[name])

    def number(self, name: str) -> int:
        """Return a header that is a whole number. Raises BrokenError for anything else."""
        value = self.header(name)
        self.expect(value.isascii() and value.isdigit(), f"{name} is {value!r}, not a whole number.")
        return int(value)

    def json(self) -> Any:
        """Return the body's value. Raises BrokenError unless it is JSON and says so."""
        media_type = self.header("Content-Type").partition(";")[0].strip()
        self.expect(
            media_type == "application/json", f"the media type is {media_type!r}, not 'application/json'."
        )
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise BrokenError(f"{self.sent}: the body is not JSON: {error}.") from None
