"""A JSON array of animals: what is taken, and where what is wrong with it is told."""

import io
import json
import os
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from inventory.import_export import lines as parts
from inventory.import_export.json_reading import read_json
from inventory.import_export.lines import LONGEST, Lines, UnreadableError
from inventory.models import Pet
from petstore.api.errors import ApiError
from petstore.api.parsers import parse_json
from tests.support.live import ROOT

REX, TOM = ("Rex", "Dogs", "available"), ("Tom", "Cats", "sold")
PETS: list[dict[str, Any]] = [
    {"name": "Rex", "categoryId": 1},
    {"id": 9, "name": "Tom", "categoryId": 99, "category": "Cats", "status": "sold", "tag": [{}]},
]
Import = Callable[..., Any]


@pytest.fixture
def import_json(db: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Import:
    """Imports a file of this content and returns the summary for programs."""

    def run(data: bytes | str, name: str = "pets.json", *options: str) -> Any:
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        with suppress(SystemExit):
            call_command("import_pets", str(path), "--json", *options)
        return json.loads(capsys.readouterr().out)

    return run


def problems(summary: Any) -> list[tuple[int, str]]:
    """Return the lines and reasons of a file that is bad."""
    assert summary["added"] == 0
    assert not Pet.objects.exists()
    return [(problem["line"], problem["reason"]) for problem in summary["errors"]]


def shop() -> list[tuple[str, str, str]]:
    return list(Pet.objects.order_by("id").values_list("name", "category__name", "status"))


# --- What is taken -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(PETS),
        json.dumps(PETS, indent=4),
        json.dumps(PETS, indent=2).replace("\n", "\r\n") + "\r\n",
        json.dumps(PETS, separators=(",\n", "\t:\n")),
        "\ufeff" + json.dumps(PETS),
        " \n\n\t" + json.dumps(PETS) + "\n \n",
        "\n" * 100_000 + json.dumps(PETS),
        " " * 200_000 + json.dumps(PETS),
    ],
    ids=["one line", "indented", "CRLF", "odd", "BOM", "blanks around", "blank lines", "long blank line"],
)
@pytest.mark.parametrize("name", ["pets.json", "PETS.JSON", "pets.jsonl"])
def test_array_is_taken_in_every_layout_and_whichever_json_it_is_called(
    import_json: Import, text: str, name: str
) -> None:
    assert import_json(text, name)["added"] == 2
    assert shop() == [REX, TOM]


def test_what_the_export_writes_can_be_put_into_an_array(import_json: Import, tmp_path: Path) -> None:
    import_json(json.dumps(PETS))
    call_command("export_pets", str(tmp_path / "out.jsonl"), stdout=io.StringIO())
    exported = (tmp_path / "out.jsonl").read_text().splitlines()
    import_json(f"[{','.join(exported)}]")
    assert shop() == [REX, TOM, REX, TOM]


def test_array_on_standard_input_is_taken(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(PETS).encode())))
    call_command("import_pets", "-", "--format", "json", stdout=io.StringIO())
    assert shop() == [REX, TOM]


def test_brackets_and_quotes_in_names_are_only_characters(import_json: Import) -> None:
    names = ["]", "}{", '"', '\\"', "\\", "\\\\", ",", '"},{"name":"', "名前 🐕", "é" * 255]
    import_json(json.dumps([{"name": name, "categoryId": 1} for name in names], ensure_ascii=False))
    assert [name for name, _, _ in shop()] == names


def test_empty_array_adds_nothing(import_json: Import) -> None:
    summary = import_json(" [ ]\n")
    assert (summary["good"], summary["bad"]) == (0, 0)


# --- What is refused -----------------------------------------------------------------------------

INVALID = "The element is not valid JSON: "
NOT_AN_OBJECT = "The element is not a JSON object."
TOO_LONG = "The element is longer than 65,536 bytes."


@pytest.mark.parametrize(
    ("element", "reason"),
    [
        (b"5", NOT_AN_OBJECT),
        (b"null", NOT_AN_OBJECT),
        (b'"]"', NOT_AN_OBJECT),
        (b"[]", NOT_AN_OBJECT),
        (b'[{"name":"Rex","categoryId":1}]', NOT_AN_OBJECT),
        (b"Rex", INVALID + "see its character 1."),
        (b'{"name" "Rex"}', INVALID + "see its character 9."),
        (b'{\n "name":\n "Rex",\n}', INVALID + "see line 7, column 1."),
        (b'{"name":[}}', INVALID + "see its character 10."),
        (b'{"name":"Rex","name":"Tom"}', INVALID + "an object has two members of one name."),
        (b'{"name":"R\xe9x"}', INVALID + "it is not UTF-8."),
        (b'{"name":"R\\u0000x"}', INVALID + "a string has a NUL character."),
        (b'{"name":"\\ud800"}', INVALID + "a string has a lone surrogate."),
        (b'{"name":NaN}', INVALID + "NaN is not JSON."),
        (b"[" * 20_000 + b"]" * 20_000, INVALID + "it is nested too deeply."),
        (b"{}", "name: Is missing. category: Is missing."),
        (b'{"name":"Rex","categoryId":99}', "categoryId: No category has the id 99."),
        (b'{"name":"' + b"x" * LONGEST + b'"}', TOO_LONG),
        (b'{"name":\n"' + b'\\"' * 1_000_000 + b'"}', TOO_LONG),
        (b"[\n" * 200_000 + b"]" * 200_000, TOO_LONG),
        (b"1" * 1_000_000, TOO_LONG),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_bad_element_is_reported_with_the_line_on_which_it_begins(
    import_json: Import, element: bytes, reason: str
) -> None:
    good = b'{"name":"Rex",\n"categoryId":1}'
    after = 4 + element.count(b"\n")
    found = problems(import_json(b"[" + good + b",\n\n  " + element + b",\n" + good + b",{}]"))
    assert found == [(4, reason), (after + 2, "name: Is missing. category: Is missing.")]


BEGINS = "The element that begins here does not end as it should."


@pytest.mark.parametrize(
    ("data", "line", "start"),
    [
        (b"", 1, "The file must begin with [ and hold an array of objects."),
        (b'\n{"name":"Rex"}\n', 2, "The file must begin with ["),
        (b"\x0b[]", 1, "The file must begin with ["),
        (b"[", 1, "The file ends before its array does: a ] is missing."),
        (b'[\n{"name":"Rex","categoryId":1}\n', 2, "The file ends before its array does"),
        (b'[\n{"name":"Rex","categoryId":1},\n', 2, "The file ends before its array does"),
        (b'[{"name":"Rex","categoryId":1},\n\n]', 1, "This comma must go: no element follows it."),
        (b'[{"name":"Rex","categoryId":1},\n,{}]', 2, "An element is missing where a comma"),
        (b"[,]", 1, "An element is missing where a comma"),
        (b"[}", 1, "An element is missing where a comma or a bracket comes."),
        (b'[{"name":"Rex","categoryId":1}\n{}]', 2, "Before '{' a comma is missing, or the ]"),
        (b'[{"name":"Rex","categoryId":1}}]', 1, "Before '}' a comma is missing"),
        (b'[{"name":"Rex","categoryId":1}\xff]', 1, "Before '\ufffd' a comma is missing"),
        (b"[]\n\n[]", 3, "Something follows the ] that ends the array."),
        (b"[]\0", 1, "Something follows the ]"),
        (b'[\n{"name":"Rex",\n{"name":"Tom"}]\n\n', 2, BEGINS),
        (b'[\n{"name":"Rex"\n', 2, BEGINS),
        (b'["\\', 1, BEGINS),
        (b"[" * 1_000_000, 1, BEGINS),
        (b'[{"name":\n"Rex,\n"categoryId":1}]', 2, "A string does not end on its line"),
        (b'["\\\n"]', 1, "A string does not end on its line"),
        ("[]".encode("utf-16"), 1, "The file is in UTF-16. Save it as UTF-8."),
        ("[]".encode("utf-16-be"), 1, "The file is in UTF-16. Save it as UTF-8."),
    ],
    ids=lambda value: repr(value)[:60],
)
@pytest.mark.parametrize("options", [(), ("--skip-bad",)])
def test_nothing_is_taken_from_an_array_whose_syntax_is_broken(
    import_json: Import, data: bytes, line: int, start: str, options: tuple[str, ...]
) -> None:
    found, reason = problems(import_json(data, "pets.json", *options))[-1]
    assert (found, reason[: len(start)]) == (line, start)


def test_bad_elements_may_be_left_out(import_json: Import) -> None:
    summary = import_json(f"[{json.dumps(PETS[0])}, 5, {json.dumps(PETS[1])}]", "pets.json", "--skip-bad")
    assert (summary["added"], summary["bad"]) == (2, 1)
    assert shop() == [REX, TOM]


def test_lines_of_objects_are_no_array_and_the_refusal_names_their_format(db: None, tmp_path: Path) -> None:
    (tmp_path / "pets.json").write_text('{"name":"Rex","categoryId":1}\n')
    err = io.StringIO()
    with pytest.raises(CommandError, match=r"Nothing was added\."):
        call_command("import_pets", str(tmp_path / "pets.json"), stderr=err)
    assert "its format is JSON Lines (jsonl)" in err.getvalue()


# --- One verdict, however the text arrives -------------------------------------------------------

PIECES = [*'"\\{}[],: a1\n\t', '\\"', "\\u0000", '"é"', '{"name":"Rex"}', "NaN", '{"a":1,"a":2}']


def verdict(data: bytes) -> tuple[list[Any], bool]:
    """Return what is read, and whether all of it is valid JSON."""
    found: list[Any] = []
    valid = True
    try:
        for line, raw in read_json(Lines(io.BytesIO(data))):
            found.append((line, raw))
            valid &= not (isinstance(raw, str) and raw.startswith(INVALID))
    except UnreadableError as error:
        found.append((error.line, error.reason))
        valid = False
    return found, valid


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join), st.sampled_from(["]", "", "]\n"]))
def test_array_is_valid_exactly_if_the_parser_of_the_api_takes_the_whole(middle: str, end: str) -> None:
    data = f"[{middle}{end}".encode()
    found, valid = verdict(data)
    try:
        value = parse_json(data)
    except ApiError:
        assert not valid
    else:
        assert valid
        assert len(found) == len(value)


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join), st.integers(1, 9))
def test_verdict_does_not_depend_on_where_the_reading_of_a_line_pauses(middle: str, longest: int) -> None:
    data = f"[{middle}]".encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "LONGEST", longest)
        in_pieces = verdict(data)
    assert in_pieces == verdict(data)


class Endless(io.RawIOBase):
    """A stream of elements, made while it is read."""

    def __init__(self, elements: int, between: bytes) -> None:
        self.left = elements
        self.between = between
        self.waiting = b"["
        self.seed = random.Random(1)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.waiting and self.left >= 0:
            name = self.seed.randbytes(8).hex()
            element = b'{"name":"%b","categoryId":1}' % name.encode()
            self.waiting = element + self.between if self.left else b"0]"
            self.left -= 1
        size = min(len(buffer), len(self.waiting))
        buffer[:size], self.waiting = self.waiting[:size], self.waiting[size:]
        return size


def peak(elements: int, between: bytes) -> int:
    """Read an array; return the most bytes that it took."""
    tracemalloc.start()
    stream = io.BufferedReader(Endless(elements, between))
    assert sum(1 for _ in read_json(Lines(stream))) == elements + 1
    return tracemalloc.get_traced_memory()[1]


@pytest.mark.parametrize("between", [",", ",\n"])
def test_memory_does_not_grow_with_the_array(between: str) -> None:
    """In a process of its own: here the threads of other tests would be measured too."""
    code = (
        "import django; django.setup(); from tests.commands.test_import_json import peak; "
        f"print(peak(60_000, {between.encode()!r}))"
    )
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "petstore.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 700_000  # The array has 2,500,000 bytes; its elements would take far more.
