"""Animals in files: reading, checking and writing are pure; `storing` knows the database."""

from pathlib import Path

FORMATS = ("csv", "jsonl")
STREAM = "-"


def format_of(file: str, chosen: str | None) -> str:
    """Return the format that was chosen, or else the one of the file's suffix; a stream is CSV.

    Raises ValueError with a sentence if the suffix says nothing.
    """
    suffix = "csv" if file == STREAM else Path(file).suffix.lower().removeprefix(".")
    if not chosen and suffix not in FORMATS:
        endings = " nor in ".join(f".{one}" for one in FORMATS)
        raise ValueError(f"The file's name ends neither in {endings}. Say what it is, with --format.")
    return chosen or suffix
