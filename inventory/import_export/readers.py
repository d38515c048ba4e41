"""Incremental parsers of CSV and JSON Lines.

A reader yields each record, or an InvalidRecord, with the number of its first line. It raises
UnreadableError where the rest of the file can't be parsed.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, repeat
from typing import BinaryIO

from inventory.import_export.validation import (
    COLUMNS,
    FIELDS,
    MAIN_COLUMNS,
    REQUIRED_COLUMNS,
    InvalidRecord,
    Record,
    Records,
    Report,
    UnreadableError,
    excerpt,
)
from inventory.serializer_fields import Int64Field
from petstore.api.errors import ApiError
from petstore.api.parsers import parse_json
from petstore.backoffice.spreadsheets import unescape_formula

MAX_LINE_LENGTH = 64 * 1024  # Characters.
BYTE_ORDER_MARK = "\ufeff"
SURROGATE_ESCAPE = "surrogateescape"  # Invalid UTF-8 becomes lone surrogates.
JSON_WHITESPACE = " \t\r\n"  # RFC 8259 section 2.

UTF_16_FILE = "The file is in UTF-16. Save it as UTF-8."
BINARY_FILE = "The file is not text. Choose a CSV or JSON Lines file; a spreadsheet can be saved as CSV."
# A control character that is not whitespace, or an initial byte that is not valid UTF-8.
BINARY_CONTENT = re.compile("[\x00-\x08\x0e-\x1f]|^[\udc80-\udcff]")
LINE_TOO_LONG = (
    f"The line is longer than {MAX_LINE_LENGTH:,} characters. The rest of the file was not read."
)


def read_lines(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of a UTF-8 stream, including a byte order mark.

    Raises UnreadableError for binary files, UTF-16 and lines longer than MAX_LINE_LENGTH.
    """
    text = io.TextIOWrapper(stream, "utf-8", errors=SURROGATE_ESCAPE, newline="\n")
    try:
        for line_number, line in enumerate(iter(partial(text.readline, MAX_LINE_LENGTH + 1), ""), 1):
            if line_number == 1:
                reject_binary_and_utf16(line)
            if len(line) > MAX_LINE_LENGTH:
                raise UnreadableError(line_number, LINE_TOO_LONG)
            yield line
    finally:
        text.detach()  # Keep the stream open.


def reject_binary_and_utf16(first_line: str) -> None:
    if first_line.startswith(("\udcff\udcfe", "\udcfe\udcff")) or "\0" in first_line[:2]:
        raise UnreadableError(1, UTF_16_FILE)
    if BINARY_CONTENT.search(first_line):
        raise UnreadableError(1, BINARY_FILE)


# --- CSV -----------------------------------------------------------------------------------------

DELIMITERS = ",;\t"  # The most frequent one in the first line is used; ties go to the first.
DELIMITER_DIRECTIVE = re.compile(r'"?sep=([,;\t|])[",;\t\s]*', re.IGNORECASE)  # Understood by Excel.
# int() also accepts `1_0` and the digits of other scripts. Spreadsheets write 1.0 or 1,0.
INTEGER = re.compile(r"(-?[0-9]{1,19})(?:[.,]0{1,2})?")
LONE_SURROGATE = re.compile("[\udc80-\udcff]")

NO_COLUMN_NAMES = "The first line names no columns. If it is a pet, insert {} above it."
READ_AS_WINDOWS_1252 = (
    "The text is not UTF-8 and was read as Windows-1252. Check that accented letters are right."
)
UNCLOSED_QUOTE = (
    'A quoted value starts here and is not closed properly (write a " inside a value as ""). '
    "The rest of the file can't be read until this is corrected."
)
MISPLACED_QUOTE = 'A quote is misplaced. Inside a quoted value, write " as "".'
LONE_CR = "Lines must end with LF or CRLF; this one has a lone CR."


def read_csv(lines: Iterator[str], report: Report) -> Records:
    """Read CSV (RFC 4180, or with another delimiter) whose first line names the columns.

    A byte order mark is taken as the sign of an export for spreadsheets, in which formulas are escaped.
    """
    first_line = next(lines, "")
    unescape = unescape_formula if first_line.startswith(BYTE_ORDER_MARK) else str
    lines = chain([first_line.removeprefix(BYTE_ORDER_MARK)], lines)
    rows = parse_csv_rows(decode_lines(lines, report))
    empty_file = InvalidRecord("The file is empty. Its first line must name the columns.")
    line, header = next(rows, (1, empty_file))
    if isinstance(header, InvalidRecord):
        raise UnreadableError(line, header.reason)
    columns = parse_header(header, line)
    for line, cells in rows:
        if isinstance(cells, InvalidRecord):
            yield line, cells
        elif len(cells) < len(columns) or any(cells[len(columns) :]):
            reason = f"The line has {len(cells):,} values, but the first line names {len(columns)} columns."
            yield line, InvalidRecord(reason, excerpt(" ".join(cells)))
        else:
            yield line, parse_cells(dict(zip(columns, cells, strict=False)), unescape)


def decode_lines(lines: Iterator[str], report: Report) -> Iterator[str]:
    """Decode as Windows-1252, as some spreadsheets save CSV, if the first non-ASCII line is not UTF-8.

    Bytes that are invalid in the chosen encoding remain lone surrogates.
    """
    is_windows_1252: bool | None = None
    for line in lines:
        if is_windows_1252 is None and not line.isascii():
            is_windows_1252 = bool(LONE_SURROGATE.search(line))
            report.warning = READ_AS_WINDOWS_1252 if is_windows_1252 else ""
        if is_windows_1252:
            yield line.encode("utf-8", SURROGATE_ESCAPE).decode("cp1252", SURROGATE_ESCAPE)
        else:
            yield line


def detect_delimiter(lines: Iterator[str]) -> tuple[Iterator[str], str]:
    """Detect the delimiter from Excel's directive or the header.

    Returns all lines as well. Those before the header are emptied, which keeps line numbers.
    """
    skipped_lines = 0
    delimiter = header = ""
    for line in lines:
        if not delimiter and (directive := DELIMITER_DIRECTIVE.fullmatch(line)):
            delimiter = directive[1]
        elif line.strip(f"{DELIMITERS} \r\n"):
            header = line
            break
        skipped_lines += 1
    delimiter = delimiter or max(DELIMITERS, key=header.count)
    return chain(repeat("\n", skipped_lines), [header], lines), delimiter


def parse_csv_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str] | InvalidRecord]]:
    """Yield each row that is not empty with the number of its first line."""
    lines, delimiter = detect_delimiter(lines)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            # A quoting error that spans lines makes the rest of the file unreadable.
            if rows.line_num > line or "end of data" in str(error):
                raise UnreadableError(line, UNCLOSED_QUOTE) from None
            yield line, InvalidRecord(LONE_CR if "new-line" in str(error) else MISPLACED_QUOTE)
            continue
        if cells is None:
            return
        if any(map(str.strip, cells)):
            is_utf8 = not LONE_SURROGATE.search("".join(cells))
            yield line, cells if is_utf8 else InvalidRecord("The line is not valid UTF-8.")


def parse_header(header: list[str], line: int) -> list[str]:
    """Map the header to canonical column names. Raises UnreadableError for an invalid header."""
    known_columns = {column.lower(): column for column in (*COLUMNS, "id")}
    names = [name.strip() for name in header]
    while names and not names[-1]:
        names.pop()  # Spreadsheets also export cleared columns.
    looks_like_pet = 2 <= len(names) <= len(MAIN_COLUMNS)
    if looks_like_pet and not any(name.lower() in known_columns for name in names):
        raise UnreadableError(line, NO_COLUMN_NAMES.format(",".join(MAIN_COLUMNS[: len(names)])))
    columns: list[str] = []
    for name in names:
        column = known_columns.get(name.lower())
        if column is None:
            allowed = f"{', '.join(COLUMNS)} and id, separated by commas, semicolons or tabs"
            raise UnreadableError(
                line, f"The column {excerpt(name)} is unknown. Allowed columns are {allowed}."
            )
        if column in columns:
            raise UnreadableError(line, f"The column {column} is named twice.")
        columns.append(column)
    if not all(any(column in columns for column in alternatives) for alternatives in REQUIRED_COLUMNS):
        required = ", and ".join(" or ".join(alternatives) for alternatives in REQUIRED_COLUMNS)
        raise UnreadableError(line, f"The first line must name the columns {required}.")
    return columns


def parse_cells(cells: dict[str, str], unescape: Callable[[str], str]) -> Record:
    """Convert cells to a record. Empty cells are absent, except the name."""
    record: Record = {"name": ""}
    record |= {column: unescape(cell.strip()) for column, cell in cells.items() if cell.strip()}
    for name, field in FIELDS.items():
        if isinstance(field, Int64Field) and (match := INTEGER.fullmatch(record.get(name, ""))):
            record[name] = int(match[1])
    return record


# --- JSON ----------------------------------------------------------------------------------------

JSON_ARRAY_FILE = (
    "The file holds an array, but JSON Lines has one object per line. Convert it with `jq -c '.[]'`."
)


def read_json_lines(lines: Iterator[str], report: Report) -> Records:
    """Read JSON Lines: one NewPet or exported pet per line."""
    is_first = True
    first_line = next(lines, "").removeprefix(BYTE_ORDER_MARK)
    for line_number, line in enumerate(chain([first_line], lines), 1):
        if not line.strip(JSON_WHITESPACE):
            continue
        if is_first and line.lstrip(JSON_WHITESPACE).startswith("["):
            raise UnreadableError(line_number, JSON_ARRAY_FILE)
        is_first = False
        yield line_number, parse_json_line(line.rstrip("\r\n"))


def parse_json_line(text: str) -> Record | InvalidRecord:
    try:
        value = parse_json(text.encode("utf-8", SURROGATE_ESCAPE))
    except ApiError as error:
        reason = error.message.replace("The body", "The line").replace("line 1, ", "")
        return InvalidRecord(reason, excerpt(text))
    if not isinstance(value, dict):
        return InvalidRecord("The line is not a JSON object.", excerpt(text))
    return value


READERS: dict[str, Callable[[Iterator[str], Report], Records]] = {"csv": read_csv, "jsonl": read_json_lines}
