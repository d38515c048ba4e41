"""Find leaked keys by format and checksum."""

import errno
import os
import re
import stat
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone

from accounts.keys import key_format
from accounts.keys.key_format import ParsedKey
from accounts.management.base import get_operator
from accounts.models import ApiKey
from petstore.management.base import JsonCommand, escape_nonprintable

# Matches keys in text or binary data, but not inside a longer word.
KEY = re.compile(rb"(?<![0-9A-Za-z_])" + key_format.PATTERN.encode() + rb"(?![0-9A-Za-z_])")
UTF_16 = re.compile(rb"(?:[ -~]\0){60,}[ -~]?")  # ASCII characters, in either byte order.
MAX_KEY_BYTES = 200  # Fits a key with adjacent characters, even in UTF-16.
CHUNK_SIZE = 1 << 20
# Magic numbers of gzip, compress, bzip2, xz, zstd, lz4, zip, 7z, rar, PDF, git packs and objects.
COMPRESSED = (
    b"\x1f\x8b", b"\x1f\x9d", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"PK\x03\x04",
    b"7z\xbc\xaf", b"Rar!", b"%PDF-", b"PACK\0", b"x\x01",
)  # fmt: skip
MAX_LISTED = 20  # Files that could not be searched.

GITLEAKS = f"""\
[[rules]]
id = "petstore-api-key"
description = "Pet Store API key"
regex = '''\\b{key_format.PATTERN.replace("(", "(?:")}\\b'''
keywords = ["psk_live_", "psk_test_"]"""


class Finding(NamedTuple):
    key: ParsedKey
    place: str
    line: int  # Counted from 1.


class Command(JsonCommand):
    help = (
        "Find keys of this service in files, directories or standard input (-), by format and checksum, "
        "and report which are live. Prints public IDs only, never keys."
    )
    examples = """
        manage.py scan_keys src/ deploy.log
        git log -p | manage.py scan_keys -
        manage.py scan_keys backup/ --revoke --reason "Found in a backup"
        manage.py scan_keys --pattern > gitleaks.toml
        """
    statuses = {0: "No live key remains.", 1: "A live key remains, or a file could not be searched."}

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "paths", nargs="*", metavar="PATH", help="A file, a directory, or - for standard input."
        )
        parser.add_argument("--revoke", action="store_true", help="Revoke live keys. Requires --reason.")
        parser.add_argument("--reason", default="", metavar="TEXT", help="Stored in the keys' history.")
        parser.add_argument(
            "--pattern", action="store_true", help="Print a rule for gitleaks and other scanners."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["pattern"]:
            self.write_result({"regex": key_format.PATTERN, "gitleaks": GITLEAKS}, GITLEAKS)
            return
        if not options["paths"]:
            raise CommandError("Pass a file, a directory, or - for standard input.")
        if options["revoke"] and not options["reason"].strip():
            raise CommandError("--revoke requires --reason.")
        unsearched: list[str] = []
        found = find_in_paths(options["paths"], unsearched)
        findings = [self.report(finding, options) for finding in found]
        lines = [
            f"{escape_nonprintable(row['place'])}:{row['line']}: {row['id']} {row['state']}"
            for row in findings
        ]
        live_count = sum(row["state"] == "live" for row in findings)
        summary = f"Found {len(findings)} keys, {live_count} of them live."
        self.write_result(findings, "\n".join([*lines, summary]))
        if unsearched:
            more = f" and {len(unsearched) - MAX_LISTED:,} more" if len(unsearched) > MAX_LISTED else ""
            names = ", ".join(map(escape_nonprintable, unsearched[:MAX_LISTED]))
            raise CommandError(f"Some files can't be read and may contain keys: {names}{more}.")
        if live_count:
            sys.exit(1)

    def report(self, finding: Finding, options: dict[str, Any]) -> dict[str, Any]:
        """Serialize a finding for --json. With --revoke, revoke the key if it is live."""
        key = get_matching_key(finding.key)
        state = "unknown" if key is None else key.get_state(timezone.now()).replace("active", "live")
        if key is not None and state == "live" and options["revoke"]:
            key.revoke(reason=options["reason"], by=get_operator())
            state = "revoked now"
        row = {"place": finding.place, "line": finding.line, "id": finding.key.public_id}
        return row | {"account": key.account.name if key else None, "state": state}


def find_in_paths(paths: list[str], unsearched: list[str]) -> Iterator[Finding]:
    """Yield the keys in all paths. Adds files that can't be read to `unsearched`, with the error."""

    def add_error(error: OSError) -> None:
        unsearched.append(f"{error.filename} ({error.strerror})")

    for path in paths:
        for file in [None] if path == "-" else iterate_files(Path(path), add_error):
            place = "standard input" if file is None else str(file)
            try:
                with nullcontext(sys.stdin.buffer) if file is None else file.open("rb") as stream:
                    yield from find_in_stream(stream, place)
            except OSError as error:
                unsearched.append(f"{place} ({error.strerror})")


def iterate_files(path: Path, on_error: Callable[[OSError], None]) -> Iterator[Path]:
    """Yield the file, or all regular files below the directory, except symbolic links."""
    if not os.path.isdir(path):  # noqa: PTH112  Path.is_dir raises PermissionError.
        yield path
        return
    for directory, subdirectories, names in os.walk(path, onerror=on_error):
        subdirectories.sort()
        for name in sorted(names):
            file = Path(directory, name)
            try:
                if not stat.S_ISREG(file.lstat().st_mode):
                    continue
            except OSError as error:
                on_error(error)
            else:
                yield file


def find_in_stream(stream: BinaryIO, place: str) -> Iterator[Finding]:
    """Yield each key in a stream, with about two chunks in memory.

    Raises OSError, also for compressed data, which cannot be searched.
    """
    data, line = stream.read(CHUNK_SIZE), 1
    if data.startswith(COMPRESSED):
        raise OSError(errno.EBADMSG, "compressed: unpack it first")
    while data:
        next_chunk = stream.read(CHUNK_SIZE)
        # A key that starts in the last bytes may continue in the next chunk. It is found with that one.
        end = max(0, len(data) - MAX_KEY_BYTES) if next_chunk else len(data)
        for start, text in sorted(set(find_candidates(data))):
            key = key_format.parse(text.decode())
            if start < end and key is not None:
                yield Finding(key, place, line + data.count(b"\n", 0, start))
        line += data.count(b"\n", 0, end)
        data = data[end:] + next_chunk if next_chunk else b""


def find_candidates(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the text of everything in the format of a key, in ASCII or UTF-16."""
    for match in KEY.finditer(data):
        yield match.start(), match[0]
    for utf_16 in UTF_16.finditer(data):
        text = utf_16[0].replace(b"\0", b"")
        # The first and last byte may belong to adjacent characters.
        for start, end in product((0, 1), (len(utf_16[0]) // 2, len(text))):
            for match in KEY.finditer(text[start:end]):
                yield utf_16.start() + 2 * (start + match.start()), match[0]


def get_matching_key(text: ParsedKey) -> ApiKey | None:
    """Return the stored key if its secret matches, since a public ID is no secret."""
    key = ApiKey.objects.select_related("account").filter(public_id=text.public_id).first()
    if key is None:
        return None
    pepper = settings.API_KEY_PEPPERS.get(key.pepper_number, b"")
    return key if pepper and key_format.matches_digest(text, pepper, key.digest) else None
