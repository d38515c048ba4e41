"""CSV, by default safe to open in a spreadsheet."""

import codecs
import csv
import re
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

# A spreadsheet may evaluate a cell as a formula (OWASP, "CSV Injection") if one of these signs starts the
# text or follows a possible separator. Blanks and quotes may precede the sign, and it may be full-width.
SIGNS = "=+\\-@\t\r\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
CELL_START, FORMULA_START = r"(^|[;,|\t\r\n])", rf"(?=[^\w;,|\t\r\n]*[{SIGNS}])"
FORMULA = re.compile(CELL_START + FORMULA_START)
ESCAPED = re.compile(f"{CELL_START}'{FORMULA_START}")


def escape_formula(cell: str) -> str:
    """Put an apostrophe before each formula, so that a spreadsheet displays it as text."""
    return FORMULA.sub(r"\1'", cell)


def unescape_formula(cell: str) -> str:
    return ESCAPED.sub(r"\1", cell)


def write_csv(rows: Iterable[Sequence[Any]], stream: BinaryIO, *, for_spreadsheets: bool = True) -> None:
    """Write CSV in UTF-8. Spreadsheets recognize that by the byte order mark, and get escaped text."""
    if for_spreadsheets:
        rows = ([escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    # The default line ending, CRLF, makes the writer quote a CR inside a value.
    csv.writer(codecs.getwriter("utf-8-sig" if for_spreadsheets else "utf-8")(stream)).writerows(rows)
