"""The command scan_keys, which finds leaked keys."""

import bz2
import gzip
import io
import json
import lzma
import re
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from accounts.keys import key_format
from accounts.management.commands.scan_keys import (
    CHUNK_SIZE,
    GITLEAKS,
    MAX_KEY_BYTES,
    find_in_stream,
)
from accounts.models import ApiKey
from tests.conftest import OPERATOR, Issue
from tests.support.commands import get_error, run, run_json

pytestmark = pytest.mark.same_on_both


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", data)
    return out.getvalue()


def zlib_of_git(data: bytes) -> bytes:
    return zlib.compress(data, 1)


def find_keys(data: bytes) -> list[tuple[str, int]]:
    return [(finding.key.text, finding.line) for finding in find_in_stream(io.BytesIO(data), "x")]


@pytest.fixture(scope="module")
def text() -> str:
    return key_format.generate("live", key_format.new_account_id()).text


@pytest.mark.parametrize(
    "around", ["{}", "key={}", '"{}",', "<{}>", "\x00{}\xff", "Bearer {}\r", "\n\n{}\n"]
)
def test_key_is_found_in_any_surroundings(text: str, around: str) -> None:
    data = around.format(text).encode("latin-1")
    assert find_keys(data) == [(text, 1 + around.partition("{}")[0].count("\n"))]


def test_text_resembling_a_key_is_not_found(text: str) -> None:
    other = "1" if text[-1] != "1" else "2"
    lookalikes = [text[:-1] + other, text[:-1], f"x{text}", f"{text}x", text.upper()]
    assert find_keys("\n".join([*lookalikes, text.replace("live", "prod")]).encode()) == []


@pytest.mark.parametrize("encoding", ["ascii", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("offset", [0, 1, 62, 63, 124, MAX_KEY_BYTES - 1, MAX_KEY_BYTES, MAX_KEY_BYTES + 1])
def test_key_across_two_chunks_of_a_stream_is_found_once(text: str, offset: int, encoding: str) -> None:
    data = b"\n" * (CHUNK_SIZE - offset) + text.encode(encoding) + b"\n" * CHUNK_SIZE
    assert find_keys(data) == [(text, CHUNK_SIZE - offset + 1)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "around", ["{}", "key={}\r\n", "\n\u4e41{}\u4100", "\u5bc6{}\u6237", "\u0141 {} x", "a\n{}\n{}"]
)
def test_key_is_found_in_every_encoding_of_windows(text: str, encoding: str, around: str) -> None:
    data = around.format(text, text).encode(encoding)
    lines = around.split("\n")
    assert find_keys(data) == [(text, number) for number, line in enumerate(lines, 1) if "{}" in line]


def test_command_reports_live_keys(issue: Issue, text: str, tmp_path: Path) -> None:
    (live, live_text), (dead, dead_text) = issue(), issue()
    dead.revoke(reason="Old.", by=OPERATOR)
    forged = live_text[:24] + text[24:-6]
    forged += key_format.compute_checksum(forged)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "notes.txt").write_text(f"{live_text}\n{dead_text}\n{text}\n{forged}")
    (tmp_path / "empty").touch()
    rows = run_json("scan_keys", str(tmp_path), status=1)
    assert [(row["line"], row["id"], row["state"]) for row in rows] == [
        (1, live.public_id, "live"),
        (2, dead.public_id, "revoked"),
        (3, text[9:23], "unknown"),
        (4, live.public_id, "unknown"),
    ]
    assert rows[0]["account"] == "Acme Pets"
    assert live_text not in json.dumps(rows)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zipped, zlib_of_git])
def test_unsearchable_file_is_named_and_others_are_searched(
    issue: Issue, tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    key, text = issue()
    (tmp_path / "a\x1b[2J").write_bytes(pack(text.encode()))
    (tmp_path / "b").write_text(text)
    out = io.StringIO()
    with pytest.raises(CommandError, match=r"a\\u001b\[2J \(compressed: unpack it first\)") as raised:
        call_command(
            "scan_keys", str(tmp_path), "/nowhere/at/all", "--revoke", "--reason", "Leak", stdout=out
        )
    assert "/nowhere/at/all (No such file or directory)" in str(raised.value)
    assert f"{tmp_path}/b:1: {key.public_id} revoked now\n" in out.getvalue()


def test_compressed_input_is_not_reported_as_clean(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"x"))))
    assert "standard input" in get_error("scan_keys", "-")


def test_exit_status_reports_remaining_live_keys(issue: Issue, tmp_path: Path) -> None:
    (tmp_path / "leak").write_text(issue()[1])
    run("scan_keys", str(tmp_path), status=1)
    rows = run_json("scan_keys", str(tmp_path), "--revoke", "--reason", "Leaked.")
    assert [row["state"] for row in rows] == ["revoked now"]
    assert ApiKey.objects.get().revoked_reason == "Leaked."
    run("scan_keys", str(tmp_path))


def test_command_reads_standard_input(issue: Issue, monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = issue()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert [row["place"] for row in run_json("scan_keys", "-", status=1)] == ["standard input"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Pass a file, a directory"),
        (["/nowhere/at/all"], "can't be read"),
        (["x" * 300], "File name too long"),
        (["-", "--revoke"], "--revoke requires --reason"),
    ],
)
def test_invalid_use_is_rejected_with_a_message(db: None, arguments: list[str], sentence: str) -> None:
    assert sentence in get_error("scan_keys", *arguments)


def test_printed_rule_is_valid_for_scanners(text: str) -> None:
    printed = run("scan_keys", "--pattern")
    assert printed.strip() == GITLEAKS
    rule = tomllib.loads(printed)["rules"][0]
    assert re.search(rule["regex"], f"key = '{text}'")
    assert all(keyword.startswith("psk_") for keyword in rule["keywords"])
