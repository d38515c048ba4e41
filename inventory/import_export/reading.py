"""Incremental parsers of CSV and JSON Lines.

A reader yields the first line number of each record with its members or an InvalidRecord. It raises
UnreadableError where the rest of the file can't be parsed.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, repeat
from typing import BinaryIO

from inventory.import_export.checking import (
    COLUMNS,
    MAIN_COLUMNS,
    REQUIRED_COLUMNS,
    InvalidRecord,
    Members,
    Records,
    Report,
    UnreadableError,
    excerpt,
)
from inventory.members import PET
from petstore.api.errors import ApiError
from petstore.api.parsers import parse_json
from petstore.backoffice.spreadsheets import unescape_formula

MAX_LINE = 64 * 1024  # Characters.
ESCAPED = "surrogateescape"  # Invalid UTF-8 becomes lone surrogates.
BLANKS = " \t\r\n"  # JSON whitespace (RFC 8259 section 2).

UTF_16 = "The file is in UTF-16. Save it as UTF-8."
NOT_TEXT = "The file is not text. Choose a CSV or JSON Lines file; a spreadsheet can be saved as CSV."
# A control character, or an initial byte that can't start a UTF-8 sequence.
BINARY = re.compile("[\x00-\x08\x0e-\x1f]|^[\udc80-\udcff]")
TOO_LONG = f"The line is longer than {MAX_LINE:,} characters. The rest of the file was not read."


def lines(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of a UTF-8 stream, with a byte order mark if there is one.

    Invalid bytes become lone surrogates. Raises UnreadableError for binary files and lines longer than
    MAX_LINE.
    """
    text = io.TextIOWrapper(stream, "utf-8", errors=ESCAPED, newline="\n")
    try:
        for number, line in enumerate(iter(partial(text.readline, MAX_LINE + 1), ""), 1):
            if number == 1 and (line.startswith(("\udcff\udcfe", "\udcfe\udcff")) or "\0" in line[:2]):
                raise UnreadableError(1, UTF_16)
            if number == 1 and BINARY.search(line):
                raise UnreadableError(1, NOT_TEXT)
            if len(line) > MAX_LINE:
                raise UnreadableError(number, TOO_LONG)
            yield line
    finally:
        text.detach()  # Keep the stream open.


# --- CSV -----------------------------------------------------------------------------------------

BOM = "\ufeff"
INTEGER = re.compile(r"(-?[0-9]{1,19})(?:[.,]0{1,2})?")
DELIMITERS = ",;\t"  # The most frequent one in the first line is used; ties go to the first.
NAMED_DELIMITER = re.compile(r'"?sep=([,;\t|])[",;\t\s]*', re.IGNORECASE)  # Excel's own directive.
EMPTY = "The file is empty. Its first line must name the columns."
NO_COLUMNS = "The first line names no columns. If it is a pet, insert {} above it."
WINDOWS = "The text is not UTF-8 and was read as Windows-1252. Check that accented letters are right."
NOT_UTF8 = "The line is not valid UTF-8."
UNCLOSED = (
    'A quoted value starts here and is not closed properly (write a " inside a value as ""). '
    "The rest of the file can't be read until this is corrected."
)
LONE_CR = "Lines must end with LF or CRLF; this one has a lone CR."
MISPLACED_QUOTE = 'A quote is misplaced. Inside a quoted value, write " as "".'
LONE_SURROGATE = re.compile("[\udc80-\udcff]")


def read_csv(lines: Iterator[str], report: Report) -> Records:
    """Read CSV (RFC 4180, or with another of DELIMITERS) whose first line names the columns.

    Only exports for spreadsheets, which start with a byte order mark, have escaped formulas.
    """
    first = next(lines, "")
    unescape = unescape_formula if first.startswith(BOM) else str
    rows = csv_rows(decoded(chain([first.removeprefix(BOM)], lines), report))
    line, names = next(rows, (1, InvalidRecord(EMPTY)))
    if isinstance(names, InvalidRecord):
        raise UnreadableError(line, names.reason)
    columns = parse_header(names, line)
    for line, cells in rows:
        if isinstance(cells, InvalidRecord):
            yield line, cells
        elif len(cells) < len(columns) or any(cells[len(columns) :]):
            text = f"The line has {len(cells):,} values, but the first line names {len(columns)} columns."
            yield line, InvalidRecord(text, excerpt(" ".join(cells)))
        else:
            yield line, csv_members(dict(zip(columns, cells, strict=False)), unescape)


def decoded(lines: Iterator[str], report: Report) -> Iterator[str]:
    """Decode as Windows-1252, as spreadsheets save CSV, if the first non-ASCII line is not UTF-8.

    Lines that are valid in neither keep their lone surrogates.
    """
    windows: bool | None = None
    for line in lines:
        if windows is None and not line.isascii():
            windows = bool(LONE_SURROGATE.search(line))
            report.remark = WINDOWS if windows else ""
        yield line.encode("utf-8", ESCAPED).decode("cp1252", ESCAPED) if windows else line


def detect_delimiter(lines: Iterator[str]) -> tuple[Iterator[str], str]:
    """Detect the delimiter from the first line that is not empty."""
    blank, named = 0, None
    for head in lines:
        named = named or NAMED_DELIMITER.fullmatch(head)
        if head.strip(f"{DELIMITERS} \r\n") and not (named and named[0] == head):
            break
        blank += 1
    else:
        head = ""
    delimiter = named[1] if named else max(DELIMITERS, key=head.count)
    return chain(repeat("\n", blank), [head], lines), delimiter


def csv_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str] | InvalidRecord]]:
    """Yield each record that is not empty with its first line number."""
    lines, delimiter = detect_delimiter(lines)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            # A quoting error that spans lines makes the rest of the file unreadable.
            if rows.line_num > line or "end of data" in str(error):
                raise UnreadableError(line, UNCLOSED) from None
            yield line, InvalidRecord(LONE_CR if "new-line" in str(error) else MISPLACED_QUOTE)
            continue
        if cells is None:
            return
        if any(map(str.strip, cells)):
            yield line, InvalidRecord(NOT_UTF8) if LONE_SURROGATE.search("".join(cells)) else cells


def parse_header(names: list[str], line: int) -> list[str]:
    """Map the header to canonical column names. Raises UnreadableError for unknown ones."""
    known = {column.lower(): column for column in (*COLUMNS, "id")}
    columns: list[str] = []
    while names and not names[-1].strip():
        names.pop()  # Spreadsheets write cleared columns.
    looks_like_pet = 2 <= len(names) <= len(MAIN_COLUMNS)
    if looks_like_pet and not {name.strip().lower() for name in names} & known.keys():
        raise UnreadableError(line, NO_COLUMNS.format(",".join(MAIN_COLUMNS[: len(names)])))
    for name in names:
        column = known.get(name.strip().lower())
        if column is None:
            allowed = f"{', '.join(COLUMNS)} and id, separated by commas, semicolons or tabs"
            text = f"The column {excerpt(name)} is unknown. Allowed are {allowed}."
            raise UnreadableError(line, text)
        if column in columns:
            raise UnreadableError(line, f"The column {column} is named twice.")
        columns.append(column)
    if not all({*names} & {*columns} for names in REQUIRED_COLUMNS):
        required = ", and ".join(" or ".join(names) for names in REQUIRED_COLUMNS)
        raise UnreadableError(line, f"The first line must name the columns {required}.")
    return columns


def csv_members(cells: dict[str, str], unescape: Callable[[str], str]) -> Members:
    """Convert cells to members. Empty cells are absent, except the name."""
    members: Members = {column: unescape(cell.strip()) for column, cell in cells.items() if cell.strip()}
    # int() accepts `1_0` and digits of other scripts. Spreadsheets write 1.0 or 1,0.
    for member in PET.writable:
        if member.field_class == "Int64Field" and (
            number := INTEGER.fullmatch(members.get(member.name, ""))
        ):
            members[member.name] = int(number[1])
    return {"name": ""} | members


# --- JSON ----------------------------------------------------------------------------------------

AN_ARRAY = "The file holds an array, but JSON Lines has one object per line. Convert it with `jq -c '.[]'`."


def read_json_lines(lines: Iterator[str], report: Report) -> Records:
    """Read JSON Lines: one NewPet or exported pet per line."""
    started = False
    first = next(lines, "").removeprefix(BOM)
    for number, line in enumerate(chain([first], lines), 1):
        if not line.strip(BLANKS):
            continue
        if not started and line.lstrip(BLANKS).startswith("["):
            raise UnreadableError(number, AN_ARRAY)
        started = True
        yield number, json_members(line.rstrip("\r\n"))


def json_members(text: str) -> Members | InvalidRecord:
    try:
        value = parse_json(text.encode("utf-8", ESCAPED))
    except ApiError as error:
        return InvalidRecord(
            error.message.replace("The body", "The line").replace("line 1, ", ""), excerpt(text)
        )
    return (
        value if isinstance(value, dict) else InvalidRecord("The line is not a JSON object.", excerpt(text))
    )


READERS: dict[str, Callable[[Iterator[str], Report], Records]] = {"csv": read_csv, "jsonl": read_json_lines}
