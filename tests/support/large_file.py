"""A static file that is larger than the buffers of a connection."""

from pathlib import Path

LARGE_FILE = "/static/large.txt"


def write_large_file(folder: Path) -> dict[str, str]:
    """Write the file, and return the environment of a service that serves it."""
    files = folder / "files"
    files.mkdir()
    (files / "large.txt").write_bytes(b"large\n" * 700_000)
    return {
        "DJANGO_SETTINGS_MODULE": "tests.support.large_file_settings",
        "LARGE_FILE_FOLDER": str(files),
    }
