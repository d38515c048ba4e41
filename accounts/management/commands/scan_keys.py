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
from accounts.keys.key_format import KeyText
from accounts.management.base import KeyCommand, get_operator
from accounts.models import ApiKey
from petstore.management.base import escape_nonprintable

# Text or binary. Not inside a longer word.
ANYWHERE = re.compile(rb"(?<![0-9A-Za-z_])" + key_format.PATTERN.encode() + rb"(?![0-9A-Za-z_])")
WIDE = re.compile(rb"(?:[ -~]\0){60,}[ -~]?")  # ASCII in UTF-16, in either byte order.
LONGEST = 200  # Bytes: more than a key with adjacent characters, also in UTF-16.
CHUNK = 1 << 20
# Magic numbers of gzip, compress, bzip2, xz, zstd, lz4, zip, 7z, rar, PDF, git packs and objects.
COMPRESSED = (
    b"\x1f\x8b", b"\x1f\x9d", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"PK\x03\x04",
    b"7z\xbc\xaf", b"Rar!", b"%PDF-", b"PACK\0", b"x\x01",
)  # fmt: skip
MAX_NAMED = 20  # Unreadable files listed in the message.

GITLEAKS = f"""\
[[rules]]
id = "petstore-api-key"
description = "Pet Store API key"
regex = '''\\b{key_format.PATTERN.replace("(", "(?:")}\\b'''
keywords = ["psk_live_", "psk_test_"]"""


class Finding(NamedTuple):
    """A key in a file. Lines count from 1."""

    key: KeyText
    place: str
    line: int


class Command(KeyCommand):
    help = (
        "Find this service's keys in files, directories or standard input (-), by format and checksum, "
        "and report which are live. Prints public IDs, never keys."
    )
    examples = """
        manage.py scan_keys src/ deploy.log
        git log -p | manage.py scan_keys -
        manage.py scan_keys backup/ --revoke --reason "Found in a backup"
        manage.py scan_keys --pattern > gitleaks.toml
        """
    statuses = {0: "No live key remains.", 1: "A live key remains, or a file could not be searched."}

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "paths", nargs="*", metavar="PATH", help="A file, a directory, or - for standard input."
        )
        parser.add_argument("--revoke", action="store_true", help="Revoke live keys; needs --reason.")
        parser.add_argument("--reason", default="", metavar="TEXT", help="Stored in the keys' history.")
        parser.add_argument(
            "--pattern", action="store_true", help="Print a rule for gitleaks and other scanners."
        )

    def run(self, options: dict[str, Any]) -> None:
        if options["pattern"]:
            self.write_result(options, {"regex": key_format.PATTERN, "gitleaks": GITLEAKS}, GITLEAKS)
            return
        if not options["paths"]:
            raise CommandError("Name a file or a directory, or - for standard input.")
        if options["revoke"] and not options["reason"].strip():
            raise CommandError("--revoke needs a --reason.")
        unsearched: list[str] = []
        found = [self.report(finding, options) for finding in findings(options["paths"], unsearched)]
        lines = [
            f"{escape_nonprintable(row['place'])}:{row['line']}: {row['id']} {row['state']}"
            for row in found
        ]
        summary = f"Found {len(found)} keys, {sum(row['state'] == 'live' for row in found)} of them live."
        self.write_result(options, found, "\n".join([*lines, summary]))
        if unsearched:
            more = f" and {len(unsearched) - MAX_NAMED:,} more" if len(unsearched) > MAX_NAMED else ""
            names = ", ".join(map(escape_nonprintable, unsearched[:MAX_NAMED]))
            raise CommandError(f"Some files can't be read and may contain keys: {names}{more}.")
        if any(row["state"] == "live" for row in found):
            sys.exit(1)

    def report(self, finding: Finding, options: dict[str, Any]) -> dict[str, Any]:
        """Represent a finding for --json, and revoke the key if it is live and --revoke is set."""
        key = owner(finding.key)
        state = "unknown" if key is None else key.get_state(timezone.now()).replace("active", "live")
        if key is not None and state == "live" and options["revoke"]:
            key.revoke(reason=options["reason"], by=get_operator())
            state = "revoked now"
        return {
            "place": finding.place,
            "line": finding.line,
            "id": finding.key.public_id,
            "account": key.account.name if key else None,
            "state": state,
        }


def findings(paths: list[str], unsearched: list[str]) -> Iterator[Finding]:
    """Yield the keys in all paths. Files that can't be read are added to `unsearched`, with the error."""

    def add_error(error: OSError) -> None:
        unsearched.append(f"{error.filename} ({error.strerror})")

    for name in paths:
        for path in [None] if name == "-" else files(Path(name), add_error):
            place = "standard input" if path is None else str(path)
            try:
                with nullcontext(sys.stdin.buffer) if path is None else path.open("rb") as stream:
                    yield from find(stream, place)
            except OSError as error:
                unsearched.append(f"{place} ({error.strerror})")


def files(path: Path, on_error: Callable[[OSError], None]) -> Iterator[Path]:
    """Yield the file, or all files below the directory. Symbolic links are not followed."""
    if not os.path.isdir(path):  # noqa: PTH112  Path.is_dir raises PermissionError.
        yield path
        return
    for folder, folders, names in os.walk(path, onerror=on_error):
        folders.sort()
        for entry in (Path(folder, name) for name in sorted(names)):
            try:
                regular = stat.S_ISREG(entry.lstat().st_mode)
            except OSError as error:
                on_error(error)
            else:
                if regular:
                    yield entry


def find(stream: BinaryIO, place: str) -> Iterator[Finding]:
    """Yield each key in a stream. At most two chunks are in memory.

    Raises OSError, also for compressed data, in which a search would find nothing.
    """
    data, line = stream.read(CHUNK), 1
    if data.startswith(COMPRESSED):
        raise OSError(errno.EBADMSG, "compressed: unpack it first")
    while data:
        following = stream.read(CHUNK)
        # A key that starts in the last bytes may continue in the next chunk, and is found there.
        end = len(data) if not following else max(0, len(data) - LONGEST)
        for start, text in sorted(set(candidates(data))):
            key = key_format.parse(text.decode())
            if start < end and key is not None:
                yield Finding(key, place, line + data.count(b"\n", 0, start))
        line += data.count(b"\n", 0, end)
        data = data[end:] + following if following else b""


def candidates(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield offset and text of everything in the format of a key, in ASCII or UTF-16."""
    for match in ANYWHERE.finditer(data):
        yield match.start(), match[0]
    for wide in WIDE.finditer(data):
        text = wide[0].replace(b"\0", b"")
        # The first and last byte may be halves of adjacent characters.
        for start, end in product((0, 1), (len(wide[0]) // 2, len(text))):
            for match in ANYWHERE.finditer(text[start:end]):
                yield wide.start() + 2 * (start + match.start()), match[0]


def owner(text: KeyText) -> ApiKey | None:
    """Return the stored key if the secret matches; a public ID alone proves nothing."""
    key = ApiKey.objects.select_related("account").filter(public_id=text.public_id).first()
    if key is None:
        return None
    pepper = settings.API_KEY_PEPPERS.get(key.pepper_number, b"")
    return key if pepper and key_format.matches_digest(text, pepper, key.digest) else None
