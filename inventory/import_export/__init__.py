"""Animals in files: reading, checking and writing are pure; `storing` knows the database."""

from collections.abc import Sequence
from pathlib import Path

FORMATS = ("csv", "jsonl")  # That are written.
READ_FORMATS = (*FORMATS, "json")
STREAM = "-"
INTERRUPTED = 130  # The exit status that shells give to what Ctrl-C stopped.


def format_of(file: str, chosen: str | None, formats: Sequence[str] = FORMATS) -> str:
    """Return the format that was chosen, or else the one of the file's suffix; a stream is CSV.

    Raises ValueError with a sentence if the suffix says nothing.
    """
    if chosen:
        return chosen
    suffix = "csv" if file == STREAM else Path(file).suffix.lower().removeprefix(".")
    if suffix not in formats:
        endings = " nor in ".join(f".{one}" for one in formats)
        raise ValueError(f"The file's name ends neither in {endings}. Say what it is, with --format.")
    return suffix
