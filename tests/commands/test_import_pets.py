"""The command import_pets: accepted and rejected files, options, and failures, which add no pets."""

import csv
import io
import json
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import OperationalError

from inventory.import_export import add_pets
from inventory.import_export.readers import MAX_LINE_LENGTH
from inventory.import_export.validation import InvalidRecord, PetAttributes, Validator
from inventory.models import Category, Pet
from inventory.models.pets import BATCH_SIZE
from tests.conftest import COMMITTED
from tests.support import commands

pytestmark = pytest.mark.django_db

VALID = b"name,category,status\nRex,Dogs,available\nTom,Cats,sold\n"
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file and returns its name."""

    def write(data: bytes, name: str = "pets.csv") -> str:
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return write


run = partial(commands.run, "import_pets")
run_json = partial(commands.run_json, "import_pets")


def get_error(*arguments: str) -> str:
    message = commands.get_error("import_pets", *arguments)
    assert not Pet.objects.exists()
    return message


def problems(file: str, *arguments: str) -> list[tuple[int, str]]:
    """Import an invalid file; return the lines and reasons."""
    summary = run_json(file, *arguments, status=1)
    assert summary["added"] == 0
    assert not Pet.objects.exists()
    return [(problem["line"], problem["reason"]) for problem in summary["errors"]]


def stored_pets() -> list[tuple[str, str, str]]:
    """All pets, in insertion order."""
    return list(Pet.objects.order_by("id").values_list("name", "category__name", "status"))


# --- Accepted files -------------------------------------------------------------------------------


def attributes(name: str, category_id: int, status: str) -> PetAttributes:
    return {"name": name, "category_id": category_id, "status": status}


REX, TOM = ("Rex", "Dogs", "available"), ("Tom", "Cats", "sold")


@pytest.mark.parametrize(
    "data",
    [
        VALID,
        VALID.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + VALID,
        VALID.replace(b"\n", b"\n\n") + b"\r\n,,\n",
        b'"name","category","status"\n"Rex","Dogs","available"\n"Tom","Cats","sold"\n',
        b"status,name,category\navailable,Rex,Dogs\nsold,Tom,Cats\n",
        b"Name , CATEGORY,Status\n Rex , Dogs ,available\nTom,Cats,sold\n",
        b"id,name,category,status\n7,Rex,Dogs,available\nx,Tom,Cats,sold\n",
        b"name,category,status\nRex,Dogs,\nTom,Cats,sold\n",
        b"name,categoryId,status\nRex,1,available\nTom, 2 ,sold\n",
        b"name,categoryId,category,status\nRex,99,Dogs,\nTom,2,,sold\n",
        VALID.replace(b",", b";"),
        b"\n;;\r\n" + VALID.replace(b",", b";"),
        VALID.replace(b",", b"\t"),
        b"sep=;\r\n" + VALID.replace(b",", b";"),
        b'\xef\xbb\xbf"sep=\t"\r\n\r\n' + VALID.replace(b",", b"\t"),
        b"SEP=|,,\n" + VALID.replace(b",", b"|"),
        b"name,category,status,, \nRex,Dogs,,,\nTom,Cats,sold,,\n",
        b"name,category,status\nRex,Dogs,,,,\nTom,Cats,sold,\n,,,,,\n \n\t, ,\n",
        b"name,categoryId,status\nRex,1.0,\nTom,2.00,sold\n",
        b"name;categoryId;status\nRex;1,0;\nTom; 2,00 ;sold\n",
    ],
)
def test_csv_is_accepted_in_common_dialects(write: Write, data: bytes) -> None:
    assert run(write(data)) == "Done. Added 2 pets.\n"
    assert stored_pets() == [REX, TOM]


@pytest.mark.parametrize(
    "data",
    [
        b'{"name":"Rex","categoryId":1}\n{"name":"Tom","categoryId":2,"status":"sold"}\n',
        b'\xef\xbb\xbf{"name":" Rex ","categoryId":1.0}\r\n\n{"name":"Tom","categoryId":2,"status":"sold"}',
        b'{"id":"x","name":"Rex","category":"Dogs","tag":[]}\n'
        b'{"status":"sold","category":"Cats","categoryId":9,"name":"T\\u006fm"}\n',
    ],
)
def test_json_lines_accept_the_values_of_the_api(write: Write, data: bytes) -> None:
    assert run(write(data, "pets.jsonl")) == "Done. Added 2 pets.\n"
    assert stored_pets() == [REX, TOM]


@pytest.mark.parametrize(
    "name",
    [
        "a,b", 'the "Beast"', "two\nlines", "cr\rinside", "\\N", "\\.", "tab\there", "=1+1", "名前", "🐕",
        "n" * 255,
    ],
)  # fmt: skip
def test_name_is_imported_unchanged(write: Write, name: str) -> None:
    text = StringIO(newline="")
    csv.writer(text).writerows([["name", "category"], [name, "Dogs"]])
    run(write(text.getvalue().encode()))
    run(write(json.dumps({"name": name, "categoryId": 1}).encode(), "pets.jsonl"))
    assert [pet.name for pet in Pet.objects.all()] == [name, name]


def set_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_standard_input_defaults_to_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    set_stdin(monkeypatch, VALID)
    run("-")
    set_stdin(monkeypatch, b'{"name":"Tom","categoryId":2,"status":"sold"}')
    run("-", "--format", "jsonl")
    assert stored_pets() == [REX, TOM, TOM]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inventory.models.pets.BATCH_SIZE", 500)


def test_pets_of_several_batches_are_added_in_order(write: Write, small_batches: None) -> None:
    names = [f"Pet {number}" for number in range(1_001)]
    run(write("\n".join(["name,category", *(f"{name},Dogs" for name in names)]).encode()))
    assert [pet.name for pet in Pet.objects.order_by("id")] == names


# --- Rejected files -----------------------------------------------------------------------------

HEAD = b"name,category,status\n"
NOT_UTF8 = "The line is not valid UTF-8."
NOT_TEXT = "The file is not text. Choose a CSV or JSON Lines file; a spreadsheet can be saved as CSV."
BLANK = "name: Must have at least one character that is not a blank."
NO_DRAGONS = "category: No category has the name 'Dragons'."
STATUSES = "status: Must be one of available, pending, sold."
TOO_LONG = "The line is longer than 65,536 characters. The rest of the file was not read."
MISPLACED = 'A quote is misplaced. Inside a quoted value, write " as "".'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b",Dogs,sold", BLANK),
        (b"n" * 256 + b",Dogs,sold", "name: Must have at most 255 characters."),
        (b"R\0x,Dogs,sold", "name: Must have no NUL character."),
        (b"Rex,Dragons,sold", NO_DRAGONS),
        (b"Rex,dosg,sold", "category: No category has the name 'dosg'. Did you mean 'Dogs'?"),
        (b"Rex,CAT,sold", "category: No category has the name 'CAT'. Did you mean 'Cats'?"),
        (b"Rex,Do\0gs,sold", "category: No category has the name 'Do\\x00gs'. Did you mean 'Dogs'?"),
        (b"Rex," + b"x" * 500 + b",sold", f"category: No category has the name '{'x' * 56}...."),
        (b"Rex,,sold", "category: Is missing."),
        (b"Rex,Dogs,lost", STATUSES),
        (b",Dragons,lost", f"{BLANK} {NO_DRAGONS} {STATUSES}"),
        (b"Rex,Dogs", "The line has 2 values, but the first line names 3 columns."),
        (b"Rex,Dogs,sold,,5", "The line has 5 values, but the first line names 3 columns."),
        (b"R\x81x,Dogs,sold", NOT_UTF8),
        (b'"Rex"x,Dogs,sold', MISPLACED),
        (b"Rex\rDogs,sold,", "Lines must end with LF or CRLF; this one has a lone CR."),
    ],
    ids=repr,
)
def test_invalid_csv_line_is_reported_with_its_number(write: Write, line: bytes, reason: str) -> None:
    file = write(HEAD + b'"Rex\nthe First",Dogs,sold\n\n' + line + b"\nTom,Cats,sold\n,Cats,\n")
    assert problems(file) == [(5, reason), (7, BLANK)]


def test_category_case_is_ignored_if_unambiguous() -> None:
    validator = Validator({"Dogs": 1, "Cats": 2, "CATS": 3})
    assert validator.validate({"name": "Rex", "category": "dogs"}) == attributes("Rex", 1, "available")
    assert validator.validate({"name": "Tom", "category": "CATS"}) == attributes("Tom", 3, "available")
    ambiguous = validator.validate({"name": "Tom", "category": "cats"})
    assert isinstance(ambiguous, InvalidRecord)
    assert "Did you mean" in ambiguous.reason


def test_marks_instead_of_a_category_take_no_quadratic_time(write: Write) -> None:
    marks = "\u0315" * 30_000 + "\u0316" * 30_000  # Sorted by the normalization.
    file = write(f"name,category\nRex,Dogs{marks}\n".encode())
    start = process_time()  # Also on a busy machine.
    ((_, reason),) = problems(file)
    assert process_time() - start < 1
    assert reason.startswith("category: No category has the name 'Dogs")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[]", "The line is not a JSON object."),
        (b'{"name":"Rex"', "The line is not valid JSON: see column 14."),
        (b'{"name":"R\xe9x","categoryId":1}', "The line is not valid JSON: it is not UTF-8."),
        (b'{"name":"R\\u0000x"}', "The line is not valid JSON: a string has a NUL character."),
        (b'{"categoryId":1}', "name: Is missing."),
        (b'{"name":5,"categoryId":1}', "name: Must be a string."),
        (b'{"name":"Rex"}', "category: Is missing."),
        (b'{"name":"Rex","category":[]}', "category: Must be a string."),
        (b'{"name":"Rex","category":null,"categoryId":1}', "category: Must be a string."),
        (b'{"name":"Rex","categoryId":"1"}', "categoryId: Must be an integer from -2^63 to 2^63 - 1."),
        (b'{"name":"Rex","categoryId":99}', "categoryId: No category has the id 99."),
        (b'{"name":"Rex","categoryId":1,"status":[]}', STATUSES),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_invalid_json_line_is_reported_with_its_number(write: Write, line: bytes, reason: str) -> None:
    good = b'{"name":"Rex","categoryId":1}\n'
    assert problems(write(good + b"\n" + line + b"\n" + good, "pets.jsonl")) == [(3, reason)]


@pytest.mark.parametrize(
    "cell", ["one", "1_0", "1.5", "1.000", "1.", ".0", "1e0", "1.0.0", "٣", "9" * 5_000, "true"]
)
def test_category_id_in_csv_must_be_plain_digits(write: Write, cell: str) -> None:
    reason = "categoryId: Must be an integer from -2^63 to 2^63 - 1."
    assert problems(write(f"name,categoryId\nRex,{cell}\n".encode())) == [(2, reason)]


NO_COLUMNS = "The first line names no columns. If it is a pet, insert name,cat"
UNCLOSED = "A quoted value starts here and is not closed properly"


@pytest.mark.parametrize(
    ("data", "line", "start"),
    [
        (b"", 1, "The file is empty. Its first line must name the columns."),
        (b"Rex,Dogs,sold\n", 1, NO_COLUMNS),
        (b"Rex\n", 1, "The column 'Rex' is unknown. Allowed columns are name, "),
        (b"name,,category\nRex,,Dogs\n", 1, "The column '' is unknown."),
        (b"name,catgory\n", 1, "The column 'catgory' is unknown."),
        (b"name,category,Name\n", 1, "The column name is named twice."),
        (b"name,status\n", 1, "The first line must name the columns name, and category or categoryId."),
        (VALID.decode().encode("utf-16"), 1, "The file is in UTF-16. Save it as UTF-8."),
        (VALID.decode().encode("utf-16-be"), 1, "The file is in UTF-16. Save it as UTF-8."),
        (b"n\x81me,category\n", 1, NOT_UTF8),
        ("näme,category\n".encode("cp1252"), 1, "The column 'näme' is unknown."),
        (b"PK\x03\x04\x14\0\x06\0\x08\0\r!\0\n", 1, NOT_TEXT),  # A spreadsheet.
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\r\x01\n", 1, NOT_TEXT),  # Pictures.
        (VALID.replace(b"\n", b"\r"), 1, "Lines must end with LF or CRLF"),
        (b"x" * 10_000_000, 1, TOO_LONG),
        (HEAD + b"x" * 10_000_000 + b"\nTom,Cats,sold\n", 2, TOO_LONG),
        (HEAD + b'"' + b"x" * MAX_LINE_LENGTH + b'",Dogs,sold', 2, TOO_LONG),
        (HEAD + b"," * MAX_LINE_LENGTH + b"\r", 2, TOO_LONG),
        (HEAD + b'"Rex,Dogs,sold\n', 2, UNCLOSED),
        (HEAD + b'"Rex,Dogs,sold\n"Tom",Cats,sold\n', 2, UNCLOSED),
        (HEAD + b'"Rex,Dogs,sold\n' + b"Tom,Cats,sold\n" * 10_000, 2, UNCLOSED),
        (HEAD + b'"\n' + b"x" * MAX_LINE_LENGTH + b"\nTom,Cats,sold\n", 3, TOO_LONG),
    ],
    ids=lambda value: repr(value)[:60],
)
@pytest.mark.parametrize("options", [(), ("--skip-bad",)])
def test_unreadable_csv_adds_nothing(
    write: Write, data: bytes, line: int, start: str, options: tuple[str, ...]
) -> None:
    [(reported_line, reason)] = problems(write(data), *options)
    assert (reported_line, reason[: len(start)]) == (line, start)


LONG_JSON = b'{"name":"' + b"x" * MAX_LINE_LENGTH + b'"}\n{}'


@pytest.mark.parametrize(
    ("data", "line", "start"),
    [
        (LONG_JSON, 1, TOO_LONG),
        (b'{"name":"Rex","categoryId":1}\n' + LONG_JSON, 2, TOO_LONG),
        (b'\n [{"name":"Rex","categoryId":1}]', 2, "The file holds an array,"),
        (b"\x1f\x8b\x08\0\r\n", 1, NOT_TEXT),
        ("{}\n".encode("utf-16"), 1, "The file is in UTF-16. Save it as UTF-8."),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_unreadable_json_lines_add_nothing(write: Write, data: bytes, line: int, start: str) -> None:
    [(reported_line, reason)] = problems(write(data, "pets.jsonl"), "--skip-bad")
    assert (reported_line, reason[: len(start)]) == (line, start)


def test_windows_1252_is_read_with_a_warning(write: Write) -> None:
    err = StringIO()
    file = write("name;category\nZoë;Dogs\nCœur „É“;Cats\n".encode("cp1252"))
    run(file, stderr=err)
    assert [pet.name for pet in Pet.objects.all()] == ["Zoë", "Cœur „É“"]
    assert "read as Windows-1252" in err.getvalue()
    assert "Windows-1252" in run_json(file, "--dry-run")["remark"]


def test_invalid_utf8_line_in_a_utf8_file_is_rejected(write: Write) -> None:
    file = write("name,category\nZoë,Dogs\n".encode() + "Zoë,Dogs\n".encode("cp1252"))
    assert problems(file) == [(3, NOT_UTF8)]
    assert run_json(file, status=1)["remark"] == ""


def test_suggestions_for_unknown_categories_are_limited(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []

    def record_comparison(word: str, candidates: Iterable[str], n: int) -> list[str]:
        compared.append((len(word), len(list(candidates))))
        return []

    monkeypatch.setattr("difflib.get_close_matches", record_comparison)
    Category.objects.bulk_create(Category(name=f"Kind {number}") for number in range(300))
    rows = [f"Rex,{number} {'x' * 500}" for number in range(1_000)]
    assert len(problems(write("\n".join(["name,category", *rows]).encode()))) == 100
    assert compared == [(40, 200)] * 20


# --- Options -------------------------------------------------------------------------------------

INVALID_FILE = HEAD + b",Dogs,\nRex,Dogs,\nTom,Dragons,\nTom,Cats,sold\n"


def test_invalid_lines_prevent_the_import_and_are_all_reported(write: Write) -> None:
    err = StringIO()
    with pytest.raises(
        CommandError, match=r"Invalid lines: 2; valid lines: 2. Nothing was added."
    ) as raised:
        run(write(INVALID_FILE), stderr=err)
    assert raised.value.returncode == 1
    assert err.getvalue().splitlines() == [f"Line 2: {BLANK}", f"Line 4: {NO_DRAGONS}"]
    assert not Pet.objects.exists()


def test_skip_bad_imports_the_valid_lines(write: Write) -> None:
    with pytest.raises(CommandError, match=r"Invalid lines: 2; valid lines: 2. Added 2 pets."):
        run(write(INVALID_FILE), "--skip-bad")
    assert stored_pets() == [REX, TOM]


def test_dry_run_adds_nothing(write: Write) -> None:
    assert run(write(VALID), "--dry-run") == "Done. The file is valid (2 pets). Nothing was added.\n"
    assert "Nothing was added." in get_error(write(INVALID_FILE), "--dry-run", "--skip-bad")
    assert not Pet.objects.exists()


def test_json_summary(write: Write) -> None:
    file = write(INVALID_FILE)
    blank = {"line": 2, "reason": BLANK, "value": "''"}
    dragons = {"line": 4, "reason": NO_DRAGONS, "value": "'Dragons'"}
    summary = {"file": file, "format": "csv", "remark": "", "good": 2, "bad": 2, "dry_run": False}
    assert run_json(file, "--skip-bad", status=1) == summary | {"added": 2, "errors": [blank, dragons]}
    assert run_json(file, "--max-errors", "1", status=1) == summary | {"added": 0, "errors": [blank]}


def test_all_invalid_lines_are_counted_and_a_hundred_listed(write: Write) -> None:
    err = StringIO()
    with pytest.raises(CommandError, match=r"Invalid lines: 20,000; valid lines: 0\."):
        run(write(HEAD + b",,lost\n" * 20_000), stderr=err)
    lines = err.getvalue().splitlines()
    assert len(lines) == 101
    assert lines[-1] == "19,900 more invalid lines not listed; see --max-errors."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("/nowhere/at/all.csv",), "Can't read /nowhere/at/all.csv: No such file or directory."),
        (("/", "--format", "csv"), "Can't read /: Is a directory."),
        (("pets.xls",), "The file name ends in neither .csv nor .jsonl."),
        (("pets.xls", "--format", "xls"), "invalid choice: 'xls'"),
        (("-", "--max-errors", "-1"), "--max-errors must be 0 or more."),
        ((), "the following arguments are required: FILE"),
    ],
)
def test_invalid_use_is_rejected_with_a_message(arguments: tuple[str, ...], message: str) -> None:
    assert message in get_error(*arguments)


# --- Failures during the import ----------------------------------------------------------------------


def fail_after_one_batch(error: BaseException) -> Iterator[PetAttributes]:
    yield from [attributes("Rex", 1, "sold")] * BATCH_SIZE
    raise error


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        (KeyboardInterrupt(), "Stopped. Nothing was added.", 130),
        (OSError(28, "No space left on device"), ": No space left on device.", 1),
        (OperationalError("gone"), "The database failed. Nothing was added. gone", 1),
    ],
    ids=["Ctrl-C", "disk full", "database gone"],
)
def test_failed_import_adds_nothing(
    write: Write, monkeypatch: pytest.MonkeyPatch, error: BaseException, message: str, status: int
) -> None:
    monkeypatch.setattr(
        "inventory.management.commands.import_pets.add_pets",
        lambda pets: add_pets(fail_after_one_batch(error)),
    )
    with pytest.raises(CommandError) as raised:
        run(write(VALID))
    assert message in str(raised.value)
    assert raised.value.returncode == status
    assert not Pet.objects.exists()


def test_interruption_during_commit_reports_an_unknown_outcome(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_and_be_interrupted(pets: Iterator[PetAttributes]) -> None:
        add_pets(pets)
        raise KeyboardInterrupt

    monkeypatch.setattr("inventory.management.commands.import_pets.add_pets", add_and_be_interrupted)
    with pytest.raises(CommandError, match=r"Stopped\. The import may have been committed"):
        run(write(VALID))


@COMMITTED
def test_concurrently_deleted_category_is_reported(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    dogs = Category.objects.get(name="Dogs")

    def delete_category_and_add(pets: Iterator[PetAttributes]) -> None:
        dogs.delete()
        add_pets(pets)

    monkeypatch.setattr("inventory.management.commands.import_pets.add_pets", delete_category_and_add)
    with pytest.raises(CommandError, match=r"Was a category deleted in the meantime\?"):
        run(write(VALID))
    assert not Pet.objects.exists()


def measure_peak_memory(action: Callable[[], Any]) -> int:
    """Return the highest number of bytes that were allocated at a time."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_import_uses_constant_memory(write: Write, small_batches: None) -> None:
    def import_pets(count: int) -> None:
        run(write(b"name,category\n" + b"Rex,Dogs\n" * count))

    import_pets(10)  # Warm up late imports.
    small, large = (measure_peak_memory(partial(import_pets, count)) for count in (1_000, 3_500))
    assert large < 8_000_000
    assert large - small < 300_000  # The other rows alone would take over 700,000 bytes.
    assert Pet.objects.count() == 4_510
