"""Commands accept names in any Unicode normal form, and check for duplicate names."""

import json
import unicodedata
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from accounts.models import Account, ApiKey
from inventory.import_export.validation import Validator
from inventory.models import Category, Pet
from petstore.db.names import check_duplicate_names
from tests.support.commands import run, run_json

pytestmark = pytest.mark.django_db

NFC = "V\u00f6gel Caf\u00e9"
NFD = unicodedata.normalize("NFD", NFC)
MIXED = "V\u00f6gel Cafe\u0301"
SPELLINGS = [NFC, NFD, MIXED]


@pytest.mark.parametrize("stored", SPELLINGS)
@pytest.mark.parametrize("typed", SPELLINGS)
def test_commands_find_an_account_in_any_normal_form(stored: str, typed: str) -> None:
    run("issue_key", "--account", stored)
    run("issue_key", "--account", typed)
    assert [account.name for account in Account.objects.all()] == [stored]
    assert len(run_json("list_keys", "--account", typed)) == 2
    run("suspend_account", typed, "--reason", "A test")
    assert Account.objects.get().suspended_at


@pytest.mark.parametrize("stored", SPELLINGS)
@pytest.mark.parametrize("typed", SPELLINGS)
def test_files_name_a_category_in_any_normal_form(tmp_path: Path, stored: str, typed: str) -> None:
    category = Category.objects.create(name=stored)
    (tmp_path / "pets.csv").write_text(f"name,category\nRex,{typed.upper()}\n")
    (tmp_path / "pets.jsonl").write_text(json.dumps({"name": "Rex", "category": typed}))
    for ending in ("csv", "jsonl"):
        run("import_pets", str(tmp_path / f"pets.{ending}"))
    assert [pet.category for pet in Pet.objects.all()] == [category, category]
    run("export_pets", str(tmp_path / "out.csv"), "--category", typed)
    assert f"Rex,{stored}" in (tmp_path / "out.csv").read_text()


def test_ambiguous_name_means_the_exact_spelling_or_the_oldest_row() -> None:
    Account.objects.bulk_create(Account(name=name, plan_id="free") for name in (NFD, NFC))
    for name in SPELLINGS:
        run("issue_key", "--account", name)
    used = [key.account.name for key in ApiKey.objects.order_by("id")]
    assert used == [NFC, NFD, NFD]
    validator = Validator({NFD: 1, NFC: 2})
    assert [validator.find_category(name) for name in (*SPELLINGS, MIXED.upper())] == [2, 1, 1, 1]


@pytest.mark.parametrize("model", [Account, Category])
def test_name_is_unique_up_to_normal_form(model: Any) -> None:
    plan = {"plan_id": "free"} if model is Account else {}
    first = model.objects.create(name=NFC, **plan)
    other = model.objects.create(name="Other", **plan)
    with pytest.raises(IntegrityError), transaction.atomic():
        model.objects.create(name=NFD, **plan)
    other.name = MIXED
    with pytest.raises(IntegrityError), transaction.atomic():
        other.save()
    first.name = NFD
    first.full_clean()
    first.save()
    assert model.objects.filter(name=NFD).exists()


def test_check_lists_rows_with_the_same_name() -> None:
    assert check_duplicate_names(None, ["default"]) == []
    first, second = Account.objects.bulk_create(Account(name=name, plan_id="free") for name in (NFC, NFD))
    Category.objects.bulk_create(Category(name=name) for name in (NFD, MIXED, "Caf\u00e8"))
    accounts, categories = check_duplicate_names(None, ["default"])
    assert accounts.msg == (f"Accounts with the same name: {first.pk} ({NFC!a}), {second.pk} ({NFD!a}).")
    assert categories.msg.startswith("Categories with the same name: ")
    assert categories.msg.count("Vo") == 1
    assert accounts.id == "petstore.W001"
    out = StringIO()
    call_command("check", databases=["default"], stderr=out)
    assert accounts.msg in out.getvalue()
