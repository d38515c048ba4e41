"""The command export_pets: formats, filters, and the round trip through import_pets."""

import csv
import io
import json
import re
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from inventory.import_export import BATCH_SIZE, consistent_snapshot, stream_pets
from inventory.models import Category, Pet
from petstore.backoffice.spreadsheets import escape_formula, unescape_formula
from tests.commands.test_import_pets import measure_peak_memory, stored_pets
from tests.conftest import COMMITTED
from tests.support.commands import get_error, run, run_json
from tests.support.concurrency import in_other_thread
from tests.support.thorough import times

pytestmark = pytest.mark.django_db

NAMES = [
    "Rex", "a,b", 'the "Beast"', "two\nlines", "two\r\nlines", "cr\rinside", "'quoted", "=1+1", "+1", "-1",
    "@sum", "名前", "🐕", "\ufeffmark", "two\u2028lines", "id", "\\N", "n" * 255,
]  # fmt: skip


PET = {"id": 1, "name": "Rex", "categoryId": 1, "category": "Dogs", "status": "sold"}


@pytest.fixture
def pets(db: None) -> list[Pet]:
    """Pets whose names need escaping."""
    categories = list(Category.objects.all())
    statuses = ["available", "pending", "sold"]
    return [
        Pet.objects.create(name=name, category=categories[number % 3], status=statuses[number % 3])
        for number, name in enumerate(NAMES)
    ]


def export(file: Path, *options: str) -> str:
    return run("export_pets", str(file), *options)


def read_csv(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(file.read_bytes().decode(), newline="")))


def test_csv_has_a_header_and_a_line_per_pet(tmp_path: Path, category: Category) -> None:
    file = tmp_path / "pets.csv"
    assert export(file) == "Done. Exported 0 pets.\n"
    assert file.read_bytes() == b"id,name,category,status\r\n"
    pet = Pet.objects.create(name="Rex, the First", category=category, status="sold")
    with CaptureQueriesContext(connection) as queries:
        assert run_json("export_pets", str(file)) == {"file": str(file), "format": "csv", "pets": 1}
    assert sum("inventory_pet" in query["sql"] for query in queries) <= 1
    line = f'{pet.pk},"Rex, the First",Dogs,sold\r\n'
    assert file.read_bytes().decode() == f"id,name,category,status\r\n{line}"


@pytest.mark.parametrize("name", ["pets.csv", "pets.jsonl", "PETS.CSV"])
def test_export_can_be_imported_into_another_shop(tmp_path: Path, pets: list[Pet], name: str) -> None:
    before = stored_pets()
    export(tmp_path / name)
    if name == "pets.jsonl":
        written = [json.loads(line) for line in (tmp_path / name).read_text().split("\n") if line]
        names = dict(Category.objects.values_list("id", "name"))
        assert written == [pet | {"category": names[pet["categoryId"]]} for pet in Pet.objects.as_json()]
    Pet.objects.all().delete()
    ids = dict(Category.objects.values_list("name", "id"))
    Category.objects.all().delete()
    for kind in sorted(ids, key=lambda kind: -ids[kind]):
        Category.objects.create(name=kind)
    run("import_pets", str(tmp_path / name))
    assert stored_pets() == before
    assert dict(Category.objects.values_list("name", "id")) != ids


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--status", "sold"), {("Birds", "sold")}),
        (("--category", "Cats"), {("Cats", "pending")}),
        (("--category", "Cats", "--status", "sold"), set()),
    ],
)
def test_export_is_filtered(
    tmp_path: Path, pets: list[Pet], options: tuple[str, ...], expected: set[tuple[str, str]]
) -> None:
    export(tmp_path / "pets.csv", *options)
    assert {(row["category"], row["status"]) for row in read_csv(tmp_path / "pets.csv")} == expected


def test_export_for_spreadsheets_can_be_imported(tmp_path: Path, pets: list[Pet]) -> None:
    hard_names = ["'=1", "''=1", "'Rex", 'Zzz;"=1+1;x', "\uff1d1", "x\r\n'+1", "a, -b|'@c", "''"]
    for name in hard_names:
        Pet.objects.create(name=name, category=pets[0].category, status="sold")
    pets[0].category.name = "'=Dogs"
    pets[0].category.save()
    before = stored_pets()
    export(tmp_path / "pets.csv", "--for-spreadsheets")
    data = (tmp_path / "pets.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbfid,")
    rows = list(csv.DictReader(StringIO(data.decode("utf-8-sig"), newline="")))
    names = [*NAMES, *hard_names]
    assert [(row["name"], row["category"]) for row in rows] == [
        (escape_formula(name), escape_formula(category))
        for name, (_, category, _) in zip(names, before, strict=True)
    ]
    Pet.objects.all().delete()
    run("import_pets", str(tmp_path / "pets.csv"))
    assert stored_pets() == before


def test_formula_escape_is_reversible() -> None:
    for length in range(1, times(6, 5)):
        for name in map("".join, product("'\"=;\t a\uff1d\u200b", repeat=length)):
            cell = escape_formula(name)
            assert unescape_formula(cell) == name
            starts = {part.lstrip(' "\u200b')[:1] for part in re.split(r"[;\t]", cell)}
            assert not starts & {"=", "\uff1d"}, repr(name)
    for start in ("=+-@\t\r\uff1d\uff0b\uff0d\uff20", " =", "\xa0=", '"='):
        for name in (start,) if "=" in start[1:] else start:
            assert escape_formula(f"{name}1") == f"'{name}1"


def test_standard_output_has_only_the_export(
    pets: list[Pet], capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out))
    err = StringIO()
    call_command("export_pets", "--json", "--format", "jsonl", stderr=err)
    assert len(out.getvalue().splitlines()) == len(NAMES)
    assert json.loads(err.getvalue()) == {"file": "-", "format": "jsonl", "pets": len(NAMES)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("/", "--format", "csv"), "Can't write /: Is a directory."),
        (("/dev/full", "--format", "csv"), "Can't write /dev/full: No space left on device."),
        (("pets.xls",), "The file name ends in neither .csv nor .jsonl."),
        (("--category", "Dragons"), "No category has the name 'Dragons'."),
        (("pets.jsonl", "--for-spreadsheets"), "--for-spreadsheets requires CSV."),
    ],
)
def test_invalid_use_is_rejected_with_a_message(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in get_error("export_pets", *arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        (KeyboardInterrupt(), "Stopped. The export is not complete.", 130),
        (OSError(28, "No space left on device"), ": No space left on device.", 1),
        (OperationalError("gone"), "The database failed. The export is not complete. gone", 1),
    ],
    ids=["Ctrl-C", "disk full", "database gone"],
)
def test_failed_export_keeps_the_existing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, message: str, status: int
) -> None:
    def fail_after_one_pet(*_: Any) -> Any:
        yield PET
        raise error

    monkeypatch.setattr("inventory.management.commands.export_pets.stream_pets", fail_after_one_pet)
    file = tmp_path / "pets.csv"
    file.write_text("older")
    with pytest.raises(CommandError) as raised:
        export(file)
    assert message in str(raised.value)
    assert raised.value.returncode == status
    assert [entry.read_text() for entry in tmp_path.iterdir()] == ["older"]


def test_existing_file_is_replaced_and_keeps_its_mode(tmp_path: Path, pets: list[Pet]) -> None:
    file, link = tmp_path / "pets.csv", tmp_path / "link.csv"
    file.write_text("older")
    file.chmod(0o640)
    link.symlink_to(file)
    export(link)
    assert link.is_symlink()
    assert len(read_csv(file)) == len(NAMES)
    assert file.stat().st_mode & 0o777 == 0o640


@COMMITTED
def test_export_is_a_consistent_snapshot(category: Category) -> None:
    Pet.objects.bulk_create(Pet(name="Rex", category=category) for _ in range(2 * BATCH_SIZE))
    with consistent_snapshot():
        exported = stream_pets(Pet.objects.all())
        next(exported)
        in_other_thread(lambda: Pet.objects.update(name="Tom"))
        assert {pet["name"] for pet in exported} == {"Rex"}
    assert set(Pet.objects.values_list("name", flat=True)) == {"Tom"}


def test_export_uses_constant_memory(
    tmp_path: Path, category: Category, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inventory.import_export.BATCH_SIZE", 500)

    file = tmp_path / "pets.csv"
    export(file)  # Warm up late imports.
    peaks = []
    for count in (1_000, 3_500):
        Pet.objects.bulk_create(Pet(name="Rex", category=category) for _ in range(count))
        peaks.append(measure_peak_memory(lambda: export(file)))
    assert peaks[1] < 8_000_000
    assert peaks[1] - peaks[0] < 300_000  # The other rows alone would take over 700,000 bytes.
    assert len(read_csv(file)) == 4_500


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("file_format", ["csv", "jsonl"])
def test_names_cannot_control_a_terminal(
    category: Category, monkeypatch: pytest.MonkeyPatch, file_format: str, *, is_terminal: bool
) -> None:
    name = "a\x1b]0;owned\x07b\x9b2J\u202ec\r\nd"
    Pet.objects.create(name=name, category=category)
    out = io.BytesIO()
    stdout = io.TextIOWrapper(out)
    stdout.isatty = lambda: is_terminal  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdout", stdout)
    call_command("export_pets", "--format", file_format)
    text = out.getvalue().decode()
    controls = [character for character in "\x1b\x07\x9b\u202e" if character in text]
    assert not is_terminal or controls == []
    if not is_terminal and file_format == "csv":
        assert name in text
