"""Fields of the API have the same value for every way to write and read them (D3, D41)."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from accounts.events.sequencing import sequence_all
from accounts.models import Event
from inventory import openapi
from inventory.models import Category, Order, Pet
from inventory.queries import ORDERS, PETS
from inventory.serializers import NewOrderSerializer, NewPetSerializer
from tests.conftest import COMMITTED, Api
from tests.support.commands import run
from tests.support.event_loop import serve
from tests.support.skips import NEEDS_POSTGRESQL

# A value of each field that clients send, which is neither its default nor its example.
SENT: dict[str, Any] = {"name": "Marble", "categoryId": 2, "status": "pending"}
SENT_ORDER: dict[str, Any] = {"petId": 2}


@pytest.mark.parametrize(
    ("serializer", "sent", "example"),
    [(NewPetSerializer(), SENT, openapi.PET), (NewOrderSerializer(), SENT_ORDER, openapi.ORDER)],
)
def test_samples_cover_all_fields(serializer: Any, sent: dict[str, Any], example: dict[str, Any]) -> None:
    assert list(sent) == list(serializer.fields)
    for name, field in serializer.fields.items():
        assert sent[name] not in {field.default, example[name]}


def to_json_types(row: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = orjson.loads(orjson.dumps(row, option=orjson.OPT_UTC_Z))
    return values


def without_id(pet: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in pet.items() if name != "id"}


def get_latest_event_data(kind: str) -> dict[str, Any]:
    sequence_all()
    data: dict[str, Any] = json.loads(Event.objects.filter(type__startswith=kind).latest("id").data)[kind]
    return data


@pytest.mark.parametrize(
    ("path", "model", "sent"), [("/pets", Pet, SENT), ("/store/orders", Order, SENT_ORDER)]
)
def test_response_list_read_instance_and_event_agree(
    api: Api, category: Category, path: str, model: Any, sent: dict[str, Any]
) -> None:
    if model is Order:
        Pet.objects.create(pk=SENT_ORDER["petId"], name="Rex", category=category)
    row = api.post(path, sent).json()
    assert row | sent == row
    assert api.get(f"{path}?limit=1").json() == [row]
    assert api.get(f"{path}/{row['id']}").json() == row
    assert to_json_types(model.objects.get(pk=row["id"]).as_json()) == row
    assert get_latest_event_data(model._meta.model_name) == row


@pytest.mark.parametrize("file_format", ["csv", "jsonl"])
def test_export_and_import_preserve_members(api: Api, tmp_path: Path, file_format: str) -> None:
    pet = api.post("/pets", SENT).json()
    file = str(tmp_path / f"pets.{file_format}")
    run("export_pets", file)
    run("import_pets", file)
    imported = to_json_types(Pet.objects.latest("id").as_json())
    assert imported["id"] != pet["id"]
    assert without_id(imported) == SENT
    assert get_latest_event_data("pet") == imported


@COMMITTED
@NEEDS_POSTGRESQL
def test_event_loop_and_threads_write_and_read_the_same(account: Any) -> None:
    category = Category.objects.get(pk=SENT["categoryId"])
    values = NewPetSerializer().run_validation(SENT)
    thread_pet = Pet.objects.create_with_event(**values)
    (loop_pet,) = serve(lambda: Pet.objects.create_with_event(**values))
    assert (
        without_id(to_json_types(loop_pet.as_json()))
        == without_id(to_json_types(thread_pet.as_json()))
        == SENT
    )
    (row,) = serve(lambda: PETS.where(id=loop_pet.pk).fetch_one())
    assert row == PETS.where(id=loop_pet.pk).fetch_one() == loop_pet.as_json()
    available_pet = Pet.objects.create(name="Free", category=category)
    values = NewOrderSerializer().run_validation(SENT_ORDER | {"petId": available_pet.pk})
    (order,) = serve(partial(Order.objects.place, account_id=account.pk, by="tests", **values))
    (row,) = serve(lambda: ORDERS.where(id=order.pk).fetch_one())
    assert row == order.as_json() == Order.objects.as_json().get(pk=order.pk)
