"""Each member of a pet has the value that was sent, however it was written and is read (D3, D41)."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from accounts.events.numbering import number_all
from accounts.models import Event
from inventory import members
from inventory.models import Category, Order, Pet
from inventory.reads import ORDERS, PETS
from tests.conftest import COMMITTED, Api
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.turns import serve

# A value of each member that clients send, other than its default and its example.
SENT: dict[str, Any] = {"name": "Marble", "categoryId": 2, "status": "pending"}


def test_values_of_this_test_are_of_all_members_and_none_is_a_default() -> None:
    assert list(SENT) == [member.name for member in members.PET.sent]
    assert not [one.name for one in members.PET.sent if SENT[one.name] in {one.default, one.example}]


def without_id(pet: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in pet.items() if name != "id"}


def last_event() -> dict[str, Any]:
    number_all()
    data: dict[str, Any] = json.loads(Event.objects.latest("id").data)["pet"]
    return data


def test_response_list_read_instance_and_event_agree(api: Api) -> None:
    pet = api.post("/pets", SENT).json()
    assert without_id(pet) == SENT
    assert api.get("/pets?limit=1").json() == [pet]
    assert api.get(f"/pets/{pet['id']}").json() == pet
    assert Pet.objects.get(pk=pet["id"]).as_json() == pet
    assert last_event() == pet


@pytest.mark.parametrize("file_format", ["csv", "jsonl"])
def test_export_and_import_keep_them(api: Api, tmp_path: Path, file_format: str) -> None:
    pet = api.post("/pets", SENT).json()
    file = str(tmp_path / f"pets.{file_format}")
    call_command("export_pets", file, stdout=StringIO())
    call_command("import_pets", file, stdout=StringIO(), stderr=StringIO())
    imported = Pet.objects.latest("id").as_json()
    assert imported["id"] != pet["id"]
    assert without_id(imported) == SENT
    assert last_event() == imported


@COMMITTED
@NEEDS_POSTGRESQL
def test_event_loop_writes_and_reads_what_threads_do(account: Any) -> None:
    category = Category.objects.get(pk=SENT["categoryId"])
    values = {one.attribute: SENT[one.name] for one in members.PET.sent}
    here = Pet.objects.add(**values)
    (there,) = serve(lambda: Pet.objects.add(**values))
    assert without_id(there.as_json()) == without_id(here.as_json()) == SENT
    (row,) = serve(lambda: PETS.where(id=there.pk).one())
    assert row == PETS.where(id=there.pk).one() == there.as_json()
    free = Pet.objects.create(name="Free", category=category)
    (order,) = serve(lambda: Order.objects.place(account_id=account.pk, pet_id=free.pk, by="tests"))
    (row,) = serve(lambda: ORDERS.where(id=order.pk).one())
    assert row == order.as_json() == Order.objects.as_json().get(pk=order.pk)
