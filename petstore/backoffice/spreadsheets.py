"""CSV for spreadsheets, from staff to staff. Pure."""

import codecs
import csv
import re
from collections.abc import Iterable, Sequence
from typing import BinaryIO

# What makes a spreadsheet take a cell for a formula (OWASP, "CSV Injection"): at the beginning of the text,
# and after what begins another cell where lists are separated by something else than commas.
FORMULA = re.compile(r"(^|[;\t\r\n])(?=[=+\-@\t\r])")


def harmless(cell: str) -> str:
    """Return the cell so that a spreadsheet shows it and does not calculate it."""
    return FORMULA.sub(r"\1'", cell)


def write(rows: Iterable[Sequence[str]], stream: BinaryIO) -> None:
    """Write rows of harmless cells, with the mark by which spreadsheets know UTF-8."""
    writer = csv.writer(codecs.getwriter("utf-8-sig")(stream))
    writer.writerows([harmless(cell) for cell in row] for row in rows)
