"""Reading animals from JSON: a line or an element of an array at a time. Pure."""

import re

from inventory.import_export.lines import (
    ABSENT,
    BLANKS,
    COLUMNS,
    LONGEST,
    TOO_LONG,
    Lines,
    Raw,
    Records,
    TooLongError,
    UnreadableError,
    shown,
)
from petstore.api.errors import ApiError
from petstore.api.parsers import parse_json

BLANK = re.compile(rb"[%b]*+" % BLANKS)
SCALAR = re.compile(rb'[^%b,\[\]{}"]*+' % BLANKS)
IN_STRING = re.compile(rb'(?:[^"\\\n]++|\\.)*+')  # A line never ends in a string (RFC 8259 section 7).
BETWEEN_BRACKETS = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\\n]++|\\.)*+"[^"\[\]{}]*+)*+')
CLOSING = {b"{": b"}", b"[": b"]"}
PLACE = re.compile(r"see line (\d+), column (\d+)")

ELEMENT_TOO_LONG = TOO_LONG.replace("line", "element")
CORRECT_FIRST = "What follows can't be told apart: correct this first."
NOT_AN_ARRAY = (
    "The file must begin with [ and hold an array of objects. If it has an object in each line, "
    "its format is JSON Lines (jsonl)."
)
UNCLOSED_ELEMENT = f"The element that begins here does not end as it should. {CORRECT_FIRST}"
UNCLOSED_STRING = f"A string does not end on its line (a line break inside is written \\n). {CORRECT_FIRST}"
UNCLOSED_ARRAY = "The file ends before its array does: a ] is missing."
NO_ELEMENT = f"An element is missing where a comma or a bracket comes. {CORRECT_FIRST}"
LAST_COMMA = "This comma must go: no element follows it."
AFTER_ARRAY = "Something follows the ] that ends the array. The file must end there."


def read_json(lines: Lines) -> Records:
    """Read a JSON array: of the contract's NewPets, or of animals as the export writes them."""
    if lines.first_sign() != b"[":
        raise UnreadableError(max(lines.number, 1), NOT_AN_ARRAY)
    yield from read_array(lines)


def read_json_lines(lines: Lines) -> Records:
    """Read JSON Lines, with in each line what is an element of `read_json`'s array; or such an array."""
    if lines.first_sign() == b"[":
        yield from read_array(lines)
        return
    while True:
        try:
            line = next(lines, None)
        except TooLongError:
            yield lines.number, TOO_LONG
            continue
        if line is None:
            return
        if line.strip():
            raw = members(line.rstrip(b"\r\n"))
            yield lines.number, PLACE.sub(r"see column \2", raw) if isinstance(raw, str) else raw


def read_array(lines: Lines) -> Records:
    """Read a JSON array, laid out over any number of lines."""
    text = ArrayText(lines)
    text.take()  # Its [.
    comma = 0  # The line of the last one.
    while (sign := text.sign()) != b"]" or comma:
        if sign in {b"", b",", b"]", b"}"}:
            raise no_element(sign, lines.number, comma)
        begins = lines.number
        element = text.element()
        yield begins, ELEMENT_TOO_LONG if element is None else element_members(element, begins)
        if text.sign() != b",":
            break
        comma = lines.number
        text.take()
    if (sign := text.take()) != b"]":
        raise UnreadableError(lines.number, no_comma(sign))
    if text.sign():
        raise UnreadableError(lines.number, AFTER_ARRAY)


def no_element(sign: bytes, line: int, comma: int) -> UnreadableError:
    """Return what is wrong where this comes instead of an element."""
    if sign == b"]":
        return UnreadableError(comma, LAST_COMMA)
    return UnreadableError(line, NO_ELEMENT if sign else UNCLOSED_ARRAY)


def no_comma(sign: bytes) -> str:
    """Return what is wrong where this comes after an element."""
    if not sign:
        return UNCLOSED_ARRAY
    found = shown(sign.decode("ascii", "replace"))
    return f"Before {found} a comma is missing, or the ] that ends the array. {CORRECT_FIRST}"


class ArrayText:
    """The text of an array; never more of it is in memory than one element and a part of a line."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.data = b""
        self.at = 0  # Where the text goes on in `data`.
        self.depth = 0  # Of open brackets in the element.
        self.in_string = False

    def read_on(self) -> bool:
        """Read more; what is left stays before it. Return False at the end of the file."""
        part = self.lines.part()
        self.data, self.at = self.data[self.at :] + part, 0
        return bool(part)

    def sign(self) -> bytes:
        """Return the next character that is not blank, or b"" at the end of the file."""
        while True:
            self.skip(BLANK)
            if self.at < len(self.data):
                return self.data[self.at : self.at + 1]
            if not self.read_on():
                return b""

    def take(self) -> bytes:
        """Return the next character that is not blank, and go beyond it."""
        sign = self.sign()
        self.at += len(sign)
        return sign

    def skip(self, pattern: re.Pattern[bytes]) -> None:
        """Go beyond what matches."""
        found = pattern.match(self.data, self.at)
        assert found is not None  # These patterns match "" too.
        self.at = found.end()

    def element(self) -> bytes | None:
        """Return the element that begins here, or None if it is longer than LONGEST.

        Raises UnreadableError if nobody can tell where it ends.
        """
        begins, sign = self.lines.number, self.data[self.at : self.at + 1]
        self.depth = int(sign in CLOSING)
        self.in_string = sign == b'"'
        is_scalar = not self.depth and not self.in_string
        start, parts, size = self.at, [], 0
        self.at += 1
        while True:
            ended = self.to_end_of_scalar() if is_scalar else self.to_end()
            size += self.at - start
            if size <= LONGEST:
                parts.append(self.data[start : self.at])
            if ended:
                break
            if not self.read_on():
                raise UnreadableError(begins, UNCLOSED_ELEMENT)
            start = 0
        if sign in CLOSING and self.data[self.at - 1 : self.at] != CLOSING[sign]:
            raise UnreadableError(begins, UNCLOSED_ELEMENT)
        return b"".join(parts) if size <= LONGEST else None

    def to_end_of_scalar(self) -> bool:
        """Go on to where a number or word ends, or all that was read; tell whether it has ended."""
        self.skip(SCALAR)
        return self.at < len(self.data)

    def to_end(self) -> bool:
        """Go on to where an object, array or string ends, or all that was read; tell whether it has ended.

        Brackets are counted whatever their shape: parse_json looks at each of them.
        """
        while True:
            if self.in_string and not self.to_end_of_string():
                return False
            if not self.depth:
                return True
            self.skip(BETWEEN_BRACKETS)
            sign = self.data[self.at : self.at + 1]
            self.at += len(sign)
            if not sign:
                return False
            if sign == b'"':
                self.in_string = True  # Its end was not read yet.
            else:
                self.depth += 1 if sign in CLOSING else -1

    def to_end_of_string(self) -> bool:
        """Go on to where the string ends, or all that was read; tell whether it has ended."""
        self.skip(IN_STRING)
        rest = self.data[self.at : self.at + 2]
        if rest in {b"", b"\\"}:  # An escape may be cut in two.
            return False
        if not rest.startswith(b'"'):
            raise UnreadableError(self.lines.number, UNCLOSED_STRING)
        self.at += 1
        self.in_string = False
        return True


def element_members(element: bytes, begins: int) -> Raw | str:
    """Return the values of an element that begins on this line, or what is wrong with it."""

    def place(found: re.Match[str]) -> str:
        line, column = int(found[1]), found[2]
        return (
            f"see line {begins + line - 1}, column {column}" if line > 1 else f"see its character {column}"
        )

    raw = members(element, "element")
    return PLACE.sub(place, raw) if isinstance(raw, str) else raw


def members(text: bytes, kind: str = "line") -> Raw | str:
    """Return the values of a JSON object, or what is wrong with this line or element."""
    try:
        value = parse_json(text)
    except ApiError as error:
        return error.message.replace("The body", f"The {kind}")
    if not isinstance(value, dict):
        return f"The {kind} is not a JSON object."
    name, category, category_id, status = (value.get(column, ABSENT) for column in COLUMNS)
    return name, category, category_id, status
