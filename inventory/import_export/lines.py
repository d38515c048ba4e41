"""The lines of a file of animals, and what all its readers share. Pure."""

from collections.abc import Iterator
from typing import Any, BinaryIO

LONGEST = 64 * 1024  # Bytes of a line, and of all lines of one record; as much as a request's body.
BOM = b"\xef\xbb\xbf"
BLANKS = b" \t\r\n"  # Between the values of JSON (RFC 8259 section 2).
COLUMNS = ("name", "category", "categoryId", "status")

# What a member or a cell is that isn't there.
ABSENT: Any = object()
# The values of COLUMNS, in their order; any type.
Raw = tuple[Any, Any, Any, Any]
Records = Iterator[tuple[int, Raw | str]]

TOO_LONG = f"The line is longer than {LONGEST:,} bytes."


class UnreadableError(Exception):
    """From this line on, nobody can tell what the file says."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class TooLongError(Exception):
    """A line, or the lines of one record, are longer than LONGEST. The whole line has been passed over."""

    def __init__(self, *, in_quotes: bool) -> None:
        super().__init__(TOO_LONG)
        self.in_quotes = in_quotes


def shown(value: Any) -> str:
    """Return a value as a report may show it: short, and without control characters."""
    text = ascii(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Lines:
    """The lines of a stream, counted; never more than LONGEST bytes are in memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.number = 0  # Of the line that was read last, from 1.
        self.bytes = 0
        self.at_start = True  # Of a line.
        self.waiting = b""  # A part that was looked at and not taken.

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        line = self.part()
        if not line:
            raise StopIteration
        if len(line) > LONGEST:
            raise TooLongError(in_quotes=self.pass_over(line))
        return line

    def part(self) -> bytes:
        """Return the next line, or, of a line that is longer than LONGEST, some of it; b"" at the end."""
        if self.waiting:
            part, self.waiting = self.waiting, b""
            return part
        part = self.stream.readline(LONGEST + 1)
        if part and not self.bytes:
            part = self.without_mark(part)
        self.number += bool(part and self.at_start)
        self.at_start = part.endswith(b"\n")
        self.bytes += len(part)
        return part

    def without_mark(self, part: bytes) -> bytes:
        """Take the byte order mark away from the start of the file. Raises UnreadableError for UTF-16."""
        if part.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in part[:2]:
            raise UnreadableError(1, "The file is in UTF-16. Save it as UTF-8.")
        if not part.startswith(BOM):
            return part
        part = part.removeprefix(BOM)
        return part if part.endswith(b"\n") else part + self.stream.readline(len(BOM))

    def first_sign(self) -> bytes:
        """Pass over blank lines; return the first character after them, or b"", and leave it there."""
        while (part := self.part()) and not part.strip(BLANKS):
            pass
        self.waiting = part
        return part.lstrip(BLANKS)[:1]

    def pass_over(self, part: bytes) -> bool:
        """Read on to the end of the line; tell whether a CSV value in quotes is open there."""
        quotes = part.count(b'"')
        while not part.endswith(b"\n") and (part := self.part()):
            quotes += part.count(b'"')
        return quotes % 2 == 1
