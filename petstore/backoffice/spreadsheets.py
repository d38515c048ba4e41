"""CSV for spreadsheets, from staff to staff. Pure."""

import codecs
import csv
import re
from collections.abc import Iterable, Sequence
from typing import BinaryIO

# What makes a spreadsheet take a cell for a formula (OWASP, "CSV Injection"): one of these signs, of any
# width, at the start of the text or after what may separate cells, whatever blanks and quotes precede it.
SIGNS = "=+\\-@\t\r\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
CELL, START = r"(^|[;,|\t\r\n])", rf"(?=[^\w;,|\t\r\n]*[{SIGNS}])"
FORMULA, ESCAPED = re.compile(CELL + START), re.compile(f"{CELL}'{START}")


def escape_formula(cell: str) -> str:
    """Return the cell so that a spreadsheet shows it and does not calculate it."""
    return FORMULA.sub(r"\1'", cell)


def unescape_formula(cell: str) -> str:
    """Return the cell that `escape_formula` was given."""
    return ESCAPED.sub(r"\1", cell)


def write(rows: Iterable[Sequence[str]], stream: BinaryIO) -> None:
    """Write rows of harmless cells, with the mark by which spreadsheets know UTF-8."""
    writer = csv.writer(codecs.getwriter("utf-8-sig")(stream))
    writer.writerows([escape_formula(cell) for cell in row] for row in rows)
