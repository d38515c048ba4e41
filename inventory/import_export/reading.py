"""Reading pets from text in pieces, one record at a time. Pure.

A reader yields, for each record, the number of the line on which it begins and either its members or a
sentence that says what is wrong with it. It raises UnreadableError where nothing that follows can be
trusted.
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
    NEEDED,
    Bad,
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

LONGEST = 64 * 1024  # Characters of a line.
ESCAPED = "surrogateescape"  # Bytes that are no UTF-8 become lone surrogates.
BLANKS = " \t\r\n"  # Between the values of JSON (RFC 8259 section 2).

UTF_16 = "The file is in UTF-16. Save it as UTF-8."
NOT_TEXT = "The file is not text. Choose a CSV or JSON Lines file; a spreadsheet can be saved as CSV."
# What no first line of a text has: a control character, or in front a byte that begins none in UTF-8.
BINARY = re.compile("[\x00-\x08\x0e-\x1f]|^[\udc80-\udcff]")
TOO_LONG = f"The line is longer than {LONGEST:,} characters. What follows was not read."


def lines(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of a stream in UTF-8, the first with its byte order mark.

    Bytes that are no UTF-8 come as lone surrogates, as Python's `surrogateescape` makes them. Raises
    UnreadableError for a file that is not text, and for a line that is longer than LONGEST.
    """
    text = io.TextIOWrapper(stream, "utf-8", errors=ESCAPED, newline="\n")
    try:
        for number, line in enumerate(iter(partial(text.readline, LONGEST + 1), ""), 1):
            if number == 1 and (line.startswith(("\udcff\udcfe", "\udcfe\udcff")) or "\0" in line[:2]):
                raise UnreadableError(1, UTF_16)
            if number == 1 and BINARY.search(line):
                raise UnreadableError(1, NOT_TEXT)
            if len(line) > LONGEST:
                raise UnreadableError(number, TOO_LONG)
            yield line
    finally:
        text.detach()  # Or it would close the stream.


# --- CSV -----------------------------------------------------------------------------------------

BOM = "\ufeff"
INTEGER = re.compile(r"(-?[0-9]{1,19})(?:[.,]0{1,2})?")
DELIMITERS = ",;\t"  # The first of them, where the first line has no other more often.
NAMED_DELIMITER = re.compile(r'"?sep=([,;\t|])[",;\t\s]*', re.IGNORECASE)  # A line for Excel alone.
EMPTY = "The file is empty. Its first line must name the columns."
NO_COLUMNS = "The first line names no columns. If it is a pet already, put {} above it."
WINDOWS = (
    "The text is not UTF-8, and was read as Windows-1252. Look whether letters with accents are right."
)
NOT_UTF8 = "The line is not text in UTF-8."
UNCLOSED = (
    'A value in quotes starts here and does not end as it should (a " inside a value is written ""). '
    "What follows can't be told apart: correct this first."
)
LONE_CR = "Lines must end with LF or CRLF; a CR stands alone here."
MISPLACED_QUOTE = 'A quote is misplaced. Inside a value in quotes, " is written "".'
NO_UTF8 = re.compile("[\udc80-\udcff]")


def read_csv(lines: Iterator[str], report: Report) -> Records:
    """Read CSV (RFC 4180, or with another of DELIMITERS) whose first line names the columns.

    Only files for spreadsheets, which begin with a byte order mark, contain escaped formulas.
    """
    first = next(lines, "")
    from_cell = unescape_formula if first.startswith(BOM) else str
    rows = csv_rows(decoded(chain([first.removeprefix(BOM)], lines), report))
    line, names = next(rows, (1, Bad(EMPTY)))
    if isinstance(names, Bad):
        raise UnreadableError(line, names.reason)
    columns = known_columns(names, line)
    for line, cells in rows:
        if isinstance(cells, Bad):
            yield line, cells
        elif len(cells) < len(columns) or any(cells[len(columns) :]):
            text = f"The line has {len(cells):,} values, but the first line names {len(columns)} columns."
            yield line, Bad(text, excerpt(" ".join(cells)))
        else:
            yield line, csv_members(dict(zip(columns, cells, strict=False)), from_cell)


def decoded(lines: Iterator[str], report: Report) -> Iterator[str]:
    """Yield the lines, in Windows-1252 if the first one that is not ASCII is not UTF-8 either.

    Spreadsheets save CSV so. A line that is in neither keeps its lone surrogates.
    """
    windows: bool | None = None
    for line in lines:
        if windows is None and not line.isascii():
            windows = bool(NO_UTF8.search(line))
            report.remark = WINDOWS if windows else ""
        yield line.encode("utf-8", ESCAPED).decode("cp1252", ESCAPED) if windows else line


def with_delimiter(lines: Iterator[str]) -> tuple[Iterator[str], str]:
    """Return the lines, and what stands between the columns in the first one that is not empty."""
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


def csv_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str] | Bad]]:
    """Yield each record that is not empty: its first line, and its cells or what is wrong with it."""
    lines, delimiter = with_delimiter(lines)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            # Quotes that go wrong within a line spoil that line; beyond it, they spoil all that follows.
            if rows.line_num > line or "end of data" in str(error):
                raise UnreadableError(line, UNCLOSED) from None
            yield line, Bad(LONE_CR if "new-line" in str(error) else MISPLACED_QUOTE)
            continue
        if cells is None:
            return
        if any(map(str.strip, cells)):
            yield line, Bad(NOT_UTF8) if NO_UTF8.search("".join(cells)) else cells


def known_columns(names: list[str], line: int) -> list[str]:
    """Return the columns that the first line names. Raises UnreadableError for others."""
    known = {column.lower(): column for column in (*COLUMNS, "id")}
    columns: list[str] = []
    while names and not names[-1].strip():
        names.pop()  # Spreadsheets write columns that were emptied.
    is_a_pet = 2 <= len(names) <= len(MAIN_COLUMNS)
    if is_a_pet and not {name.strip().lower() for name in names} & known.keys():
        raise UnreadableError(line, NO_COLUMNS.format(",".join(MAIN_COLUMNS[: len(names)])))
    for name in names:
        column = known.get(name.strip().lower())
        if column is None:
            wanted = f"{', '.join(COLUMNS)} and id, with commas, semicolons or tabs between them"
            text = (
                f"The column {excerpt(name)} is unknown. The first line must name columns among {wanted}."
            )
            raise UnreadableError(line, text)
        if column in columns:
            raise UnreadableError(line, f"The column {column} is named twice.")
        columns.append(column)
    if not all({*ways} & {*columns} for ways in NEEDED):
        needed = ", and ".join(" or ".join(ways) for ways in NEEDED)
        raise UnreadableError(line, f"The first line must name the columns {needed}.")
    return columns


def csv_members(cells: dict[str, str], from_cell: Callable[[str], str]) -> Members:
    """Return what the cells say; an empty one says nothing, but a name is there in any case."""
    members: Members = {column: from_cell(cell.strip()) for column, cell in cells.items() if cell.strip()}
    # int() alone would take `1_0` and other scripts' digits. Spreadsheets write 1.0 or 1,0.
    for member in PET.sent:
        if member.rule == "Int64Field" and (number := INTEGER.fullmatch(members.get(member.name, ""))):
            members[member.name] = int(number[1])
    return {"name": ""} | members


# --- JSON ----------------------------------------------------------------------------------------

AN_ARRAY = (
    "The file holds an array. JSON Lines has an object in each line: `jq -c '.[]'` makes them of an array."
)


def read_json_lines(lines: Iterator[str], report: Report) -> Records:
    """Read JSON Lines: in each line one of the contract's NewPets, or a pet as the export writes it."""
    begun = False
    first = next(lines, "").removeprefix(BOM)
    for number, line in enumerate(chain([first], lines), 1):
        if not line.strip(BLANKS):
            continue
        if not begun and line.lstrip(BLANKS).startswith("["):
            raise UnreadableError(number, AN_ARRAY)
        begun = True
        yield number, json_members(line.rstrip("\r\n"))


def json_members(text: str) -> Members | Bad:
    """Return the members of a JSON object, or what is wrong with this line."""
    try:
        value = parse_json(text.encode("utf-8", ESCAPED))
    except ApiError as error:
        return Bad(error.message.replace("The body", "The line").replace("line 1, ", ""), excerpt(text))
    return value if isinstance(value, dict) else Bad("The line is not a JSON object.", excerpt(text))


READERS: dict[str, Callable[[Iterator[str], Report], Records]] = {"csv": read_csv, "jsonl": read_json_lines}
