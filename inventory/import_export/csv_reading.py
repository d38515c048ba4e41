"""Reading animals from CSV, one record at a time. Pure."""

import csv
import re
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from inventory.import_export.lines import (
    ABSENT,
    COLUMNS,
    LONGEST,
    TOO_LONG,
    Lines,
    Records,
    TooLongError,
    UnreadableError,
    shown,
)

NOT_UTF8 = "The line is not text in UTF-8."
UNCLOSED = (
    'A value in quotes starts here and does not end as it should (a " inside a value is written ""). '
    "What follows can't be told apart: correct this first."
)
WHERE_LINES_END = "Lines must end with LF or CRLF; a CR stands alone here."
MISPLACED_QUOTE = 'A quote is misplaced. Inside a value in quotes, " is written "".'


class CsvText:
    """The lines as text, for csv.reader; knows where the record began that is being read."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.ended = False
        self.begin()

    def begin(self) -> None:
        """Begin a record with the next line."""
        self.first = self.lines.number + 1
        self.room = LONGEST
        self.is_utf8 = True

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            line = next(self.lines)
        except StopIteration:
            self.ended = True
            raise
        self.room -= len(line)
        if self.room < 0:
            raise TooLongError(in_quotes=True)
        try:
            return line.decode()
        except UnicodeDecodeError:
            # Read on, so that the lines after it are still counted and checked.
            self.is_utf8 = False
            return line.decode(errors="surrogateescape")


def csv_cells(lines: Lines) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each record that is not empty: its first line, and its cells or what is wrong."""
    text = CsvText(lines)
    rows = csv.reader(text, strict=True)
    while True:
        text.begin()
        try:
            cells = next(rows, None)
        except TooLongError as error:
            if error.in_quotes:
                raise UnreadableError(text.first, UNCLOSED) from None
            yield text.first, TOO_LONG
            continue
        except csv.Error as error:
            # Quotes that go wrong within a line spoil that line; beyond it, they spoil all that follows.
            if text.ended or lines.number > text.first:
                raise UnreadableError(text.first, UNCLOSED) from None
            yield text.first, WHERE_LINES_END if "new-line" in str(error) else MISPLACED_QUOTE
            continue
        if cells is None:
            return
        if any(cells):
            yield text.first, cells if text.is_utf8 else NOT_UTF8


def read_csv(lines: Lines) -> Records:
    """Read CSV (RFC 4180) whose first line names the columns."""
    records = csv_cells(lines)
    number, names = next(records, (1, "The file is empty. Its first line must name the columns."))
    if isinstance(names, str):
        raise UnreadableError(number, names)
    pick, width = chosen(names, number), len(names)
    for number, cells in records:
        if isinstance(cells, str):
            yield number, cells
        elif len(cells) != width:
            yield number, f"The line has {len(cells):,} values, but the first line names {width} columns."
        else:
            cells.append("")  # The value of each column that the file doesn't have.
            name, category, category_id, status = pick(cells)
            yield (
                number,
                (
                    name,
                    category.strip() or ABSENT,
                    whole_number(category_id.strip()) if category_id else ABSENT,
                    status.strip() or ABSENT,
                ),
            )


def chosen(names: list[str], line: int) -> Callable[[list[str]], tuple[str, ...]]:
    """Return what picks COLUMNS from a record with these columns, and "" for one that isn't among them."""
    places: dict[str, int] = {}
    known = {column.lower() for column in COLUMNS} | {"id"}
    for place, name in enumerate(names):
        column = name.strip().lower()
        if column not in known:
            raise UnreadableError(
                line,
                f"The column {shown(name)} is unknown. The first line must name columns among "
                f"{', '.join(COLUMNS)} and id, with commas between them.",
            )
        if column in places:
            raise UnreadableError(line, f"The column {column} is named twice.")
        places[column] = place
    if "name" not in places or not places.keys() & {"category", "categoryid"}:
        raise UnreadableError(
            line, "The first line must name the columns name, and category or categoryId."
        )
    return itemgetter(*(places.get(column.lower(), -1) for column in COLUMNS))


def whole_number(cell: str) -> Any:
    """Return the cell as a number if it is one; int() alone would take `1_0` and other scripts' digits."""
    if not cell:
        return ABSENT
    return int(cell) if re.fullmatch(r"-?[0-9]{1,19}", cell) else cell
