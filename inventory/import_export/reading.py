"""Reading animals from files, one record at a time. Pure.

A reader yields, for each record, the number of the line on which it begins and either its raw values or a
sentence that says what is wrong with it. It raises UnreadableError where nothing that follows can be
trusted.
"""

from collections.abc import Callable

from inventory.import_export.csv_reading import read_csv
from inventory.import_export.json_reading import read_json, read_json_lines
from inventory.import_export.lines import Lines, Records

READERS: dict[str, Callable[[Lines], Records]] = {
    "csv": read_csv,
    "json": read_json,
    "jsonl": read_json_lines,
}
