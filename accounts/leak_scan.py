"""Finding our keys in files and streams, by form and checksum: for leaks. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from accounts import key_text
from accounts.key_text import KeyText

# In any file, text or not; not inside a longer word.
ANYWHERE = re.compile(rb"(?<![0-9A-Za-z_])" + key_text.PATTERN.encode() + rb"(?![0-9A-Za-z_])")
LONGEST = 200  # Bytes; more than a key and its neighbours.
PIECE = 1 << 20

GITLEAKS = f"""\
[[rules]]
id = "petstore-api-key"
description = "Pet Store API key"
regex = '''\\b{key_text.PATTERN.replace("(", "(?:")}\\b'''
keywords = ["psk_live_", "psk_test_"]"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A key at a place: the file's name, and the line, from 1."""

    key: KeyText
    place: str
    line: int


def find(stream: BinaryIO, place: str) -> Iterator[Finding]:
    """Yield each key in a stream, whatever its size: two pieces at most are in memory."""
    data, line = stream.read(PIECE), 1
    while data:
        following = stream.read(PIECE)
        # A key that starts in the last bytes may go on in the next piece: it is found with that one.
        sure = len(data) if not following else max(0, len(data) - LONGEST)
        for match in ANYWHERE.finditer(data):
            key = key_text.split(match[0].decode())
            if match.start() < sure and key is not None:
                yield Finding(key, place, line + data.count(b"\n", 0, match.start()))
        line += data.count(b"\n", 0, sure)
        data = data[sure:] + following if following else b""


def files(path: Path) -> Iterator[Path]:
    """Yield the file, or every file below the folder; links are not followed."""
    if not path.is_dir():
        yield path
        return
    for entry in sorted(path.rglob("*")):
        if entry.is_file() and not entry.is_symlink():
            yield entry
