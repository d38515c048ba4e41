"""Exports, whose CSV is by default safe to open in a spreadsheet."""

import codecs
import csv
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

from django.db import models
from django.http import FileResponse, HttpRequest
from django.utils import timezone

from petstore.audit import HIDDEN, Action, Actor, record

EXPORT_CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}

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


def send_export(
    request: HttpRequest, model: type[models.Model], name: str, write: Callable[[BinaryIO], None]
) -> FileResponse:
    """Stream an export and record it with the filters of the list.

    The file is written to disk first, so that a slow download holds no database connection. The entry masks
    the search term, as logs do.
    """
    file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  The response closes it.
    write(file)
    file.seek(0)
    filters = request.GET.copy()
    if "q" in filters:
        filters["q"] = HIDDEN
    after = {"filters": filters.urlencode(safe="() ") or "none"}
    record(Actor.from_request(request), model, Action.EXPORTED, after=after)
    stem, extension = name.split(".")
    name, content_type = f"{stem}-{timezone.now():%Y-%m-%d}.{extension}", EXPORT_CONTENT_TYPES[extension]
    return FileResponse(file, as_attachment=True, filename=name, content_type=content_type)
