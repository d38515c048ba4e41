"""Import and export of pets in the back office."""

import csv
import io
import json
import re
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import IntegrityError
from django.test import Client
from django.utils import timezone

from inventory.admin import import_export
from inventory.models import Category, Pet
from inventory.models.uploads import LIFETIME, PetUpload
from tests.support.staff import signed_in, superuser

pytestmark = pytest.mark.same_on_both
PETS = "/admin/inventory/pet/"
IMPORT, CONFIRM, EXPORT = f"{PETS}import/", f"{PETS}process_import/", f"{PETS}export/"

GOOD = b"name,category,status\nRex,Dogs,available\nTom,Cats,\n"


def upload(staff: Client, content: bytes, name: str = "pets.csv", **fields: str) -> Any:
    return staff.post(IMPORT, {"import_file": SimpleUploadedFile(name, content), **fields})


def find_token(page: Any) -> str:
    match = re.search(r'name="upload" value="([^"]+)"', page.text)
    return match[1] if match else ""


def confirm(staff: Client, token: str) -> str:
    page = staff.post(CONFIRM, {"upload": token}, follow=True)
    assert page.status_code == 200
    return str(page.text.replace("&#x27;", "'"))


FILES = {  # tests/commands/test_import_pets.py has the rules.
    "latin-1.csv": "name,category\nZoë,Dogs\nMax,Dogs\n".encode("latin-1"),
    "open quote.csv": b'name,category\n"Rex,Dogs\nTom,Cats\n',
    "only columns.csv": b"name,category\n",
    "broken.jsonl": b'{"name": "Rex", "category": "Dogs"}\n{"name": \n{"name": 5}\n',
    "huge number.jsonl": b'{"name": "Rex", "categoryId": 1E999999}\n',
    "binary.csv": bytes(range(256)) * 20,
}


@pytest.mark.parametrize("name", FILES)
def test_file_gets_the_same_report_as_from_the_command(
    staff: Client, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    with suppress(CommandError, SystemExit):
        call_command("import_pets", str(path), "--dry-run", "--json")
    summary = json.loads(capsys.readouterr().out)
    response = upload(staff, FILES[name], name)
    assert response.status_code == 200
    report = response.context["report"]
    assert (report.good_lines, report.bad_lines) == (summary["good"], summary["bad"])
    assert [asdict(problem) for problem in report.problems] == summary["errors"]
    assert report.warning == summary["remark"]
    assert bool(find_token(response)) == (summary["good"] > 0 and summary["bad"] == 0)


def test_import_is_limited_in_pets_and_bytes(staff: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_export, "MAX_PETS", 20)
    largest = b"name,category\n" + b"Rex,Dogs\n" * 20
    spaces = b"name,category\n" + b" " * 2 * 1024 * 1024
    for page in (
        upload(staff, largest + b"Rex,Dogs\n"), upload(staff, spaces),
        *(staff.post(IMPORT, {"pasted": text.decode()}) for text in (spaces, spaces * 2)),
    ):  # fmt: skip
        assert page.status_code == 200
        assert "manage.py import_pets" in page.text
        assert find_token(page) == ""
    assert "20 pets imported" in confirm(staff, find_token(upload(staff, largest)))
    assert Pet.objects.count() == 20


def test_source_and_format_are_detected_or_chosen(staff: Client) -> None:
    for name, fields, text in (
        ("pets.txt", {}, "Choose the format"),
        ("pets.csv", {"pasted": "name,category\nRex,Dogs"}, "You pasted pets and chose a file."),
        ("pets", {"format": "csv"}, "2 pets to import"),
        ("p\u202eets\n.csv", {}, "2 pets to import"),
        (f"{'x' * 300}.csv", {}, "2 pets to import"),
    ):
        assert text in upload(staff, GOOD, name, **fields).text
    assert "Select a valid choice." in upload(staff, GOOD, "pets", format="pdf").text
    for data in ({"import_file": "text"}, {"format": "csv"}, {"pasted": " \r\n\t"}):
        assert "Paste pets or choose a file." in staff.post(IMPORT, data).text
    template = staff.get(f"{IMPORT}template/").getvalue()
    assert "1 pet to import" in upload(staff, template).text


PASTED = "name,category,status\r\nRex,Dogs,\r\nTom,Cats,"
PASTED_JSON = '{"name": "Rex", "category": "Dogs"}\r\n{"name": "Tom", "category": "Cats"}'


@pytest.mark.parametrize(
    ("file_format", "pasted"), [("", PASTED), ("", PASTED.replace(",", "\t")), ("jsonl", PASTED_JSON)]
)
def test_pasted_pets_are_imported(staff: Client, file_format: str, pasted: str) -> None:
    page = staff.post(IMPORT, {"pasted": pasted, "format": file_format})
    assert ("2 pets to import" in page.text, Pet.objects.exists()) == (True, False)
    assert "2 pets imported from the pasted text." in confirm(staff, find_token(page))
    assert set(Pet.objects.values_list("name", "category__name")) == {("Rex", "Dogs"), ("Tom", "Cats")}
    assert not PetUpload.objects.exists()


def test_preview_is_confirmed_once_by_its_user_and_replaced_by_a_newer_one(staff: Client) -> None:
    older, newer = (find_token(upload(staff, content)) for content in (GOOD, b"name,category\nLuna,Cats\n"))
    for token in (older, "", "abc", "0" * 32, "x" * 100_000, "\u0661" * 32, "{" * 36):
        assert "This preview is no longer stored" in confirm(staff, token)
    assert "no longer stored" in confirm(signed_in(superuser("colleague")), newer)
    assert "1 pet imported" in confirm(staff, newer)
    assert "This preview is no longer stored" in confirm(staff, newer)
    assert Pet.objects.count() == 1


def test_file_expires_after_an_hour(staff: Client, boss: User) -> None:
    token = find_token(upload(staff, GOOD))
    for age, is_stored in ((LIFETIME - timedelta(minutes=1), True), (LIFETIME, False)):
        PetUpload.objects.update(created_at=timezone.now() - age)
        assert PetUpload.objects.find_unexpired(boss.pk, token).exists() is is_stored
    upload(signed_in(superuser("other")), GOOD, "new.csv")
    assert [upload.file_name for upload in PetUpload.objects.all()] == ["new.csv"]


def test_failed_import_adds_nothing_and_says_why(staff: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    category = Category.objects.create(name="Newts")
    token = find_token(upload(staff, b"name,category\nRex,Dogs\nNeo,Newts\n"))
    category.delete()
    assert "a category was deleted or renamed" in confirm(staff, token)
    fail = Mock(side_effect=IntegrityError("new row violates a check constraint"))
    token = find_token(upload(staff, GOOD))
    monkeypatch.setattr("inventory.admin.import_export.add_pets", fail)
    page = confirm(staff, token)
    assert ("Nothing was imported" in page, "category no longer exists" in page) == (True, False)
    assert Pet.objects.count() == 0


def export(staff: Client, file_format: str = "csv", **query: Any) -> Any:
    response = staff.post(EXPORT, {"format": file_format}, query_params=query)
    assert response.status_code == 200
    return response


def test_export_has_the_pets_of_the_filtered_list(
    staff: Client, category: Category, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, status in (("Rex", "sold"), ("Roy", "sold"), ("Rob", "available"), ("=1", "sold")):
        Pet.objects.create(name=name, category=category, status=status)
    response = export(staff, q="r", status__exact="sold", after="0")
    assert "attachment" in response["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(response.getvalue().decode("utf-8-sig"))))
    assert [row["name"] for row in rows] == ["Rex", "Roy"]
    assert rows[0].keys() == {"id", "name", "category", "status"}
    monkeypatch.setattr(import_export, "MAX_EXPORTED_PETS", 4)
    everything = export(staff).getvalue()
    assert len(everything.splitlines()) == 5
    assert b",'=1," in everything
    Pet.objects.create(name="Tom", category=category)
    assert "manage.py export_pets" in export(staff).text  # It is too large.
