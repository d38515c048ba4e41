"""`manage.py export_collection`: what Postman and Bruno import has every operation, ready to be sent."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from inventory.models import Category, Pet
from petstore.api.openapi.views import document
from tests.conftest import Api


def run(*options: str) -> str:
    out = StringIO()
    call_command("export_collection", *options, stdout=out)
    return out.getvalue()


@pytest.fixture(scope="module")
def collection() -> Any:
    return json.loads(run())


def requests(collection: Any) -> list[Any]:
    return [item for folder in collection["item"] for item in folder["item"]]


def template(request: Any) -> str:
    """Return the method and the path as OpenAPI writes it."""
    path = "/".join(f"{{{part[1:]}}}" if part[0] == ":" else part for part in request["url"]["path"])
    return f"{request['method']} /{path}"


def test_collection_is_of_postman_s_format_2_1(collection: Any) -> None:
    assert collection.keys() == {"info", "auth", "variable", "item"}
    info = collection["info"]
    assert info["schema"] == "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
    assert (info["name"], info["version"]) == ("Pet Store", "1.0.0")
    for folder in collection["item"]:
        assert folder.keys() == {"name", "description", "item"}
    for item in requests(collection):
        assert item.keys() == {"name", "request", "response"}
        request = item["request"]
        assert {"method", "header", "url", "description"} <= request.keys()
        assert all({"key", "value"} <= header.keys() for header in request["header"])
        assert request["url"]["host"] == ["{{baseUrl}}"]
        assert request["url"]["raw"] == "/".join(["{{baseUrl}}", *request["url"]["path"]])


def test_every_operation_is_a_request_in_the_folder_of_its_tag(collection: Any) -> None:
    expected = {
        (operation["tags"][0], operation["summary"], f"{method.upper()} {path}")
        for path, item in document()["paths"].items()
        for method, operation in item.items()
    }
    found = [
        (folder["name"], item["name"], template(item["request"]))
        for folder in collection["item"]
        for item in folder["item"]
    ]
    assert set(found) == expected
    assert len(found) == len(expected)


def test_key_and_base_url_are_variables(collection: Any) -> None:
    assert collection["auth"]["type"] == "bearer"
    assert collection["auth"]["bearer"] == [{"key": "token", "value": "{{apiKey}}", "type": "string"}]
    variables = {variable["key"]: variable["value"] for variable in collection["variable"]}
    assert variables == {"baseUrl": "http://testserver/v1", "apiKey": ""}
    assert not [item for item in requests(collection) if "auth" in item["request"]]


def test_every_parameter_is_there_and_the_optional_ones_are_switched_off(collection: Any) -> None:
    for item in requests(collection):
        request = item["request"]
        method, path = template(request).split()
        parameters = document()["paths"][path][method.lower()].get("parameters", [])
        for place, rows in (
            ("query", request["url"].get("query", [])),
            ("path", request["url"].get("variable", [])),
            ("header", [header for header in request["header"] if header["key"] != "Content-Type"]),
        ):
            expected = {one["name"] for one in parameters if one["in"] == place}
            assert {row["key"] for row in rows} == expected
            assert all(row.get("disabled", False) is (place != "path") for row in rows)


def test_every_request_is_accepted_as_it_is_imported(api: Api, category: Category, collection: Any) -> None:
    """Send each request with the values that it came with, where they name something."""
    pet = Pet.objects.create(name="Rex", category=category)
    order = api.post("/store/orders", {"petId": pet.pk}).json()
    other = Pet.objects.create(name="Bella", category=category)
    sent = set()
    for item in requests(collection):
        request = item["request"]
        path = "/".join(request["url"]["path"])
        path = path.replace(":petId", str(pet.pk)).replace(":orderId", str(order["id"]))
        body = json.loads(request["body"]["raw"]) if "body" in request else None
        if body is not None and "petId" in body:
            assert body == {"petId": 1}
            body = {"petId": other.pk}
        answer = api(request["method"], f"/{path}", body)
        assert answer.status_code in {200, 201, 204}, (item["name"], answer.content)
        sent.add(template(request))
    assert len(sent) == 8


def test_successful_answers_are_kept_as_examples(collection: Any) -> None:
    for item in requests(collection):
        for example in item["response"]:
            assert example["code"] in {200, 201}
            assert example["originalRequest"] == item["request"]
            assert json.loads(example["body"])
    without = [item["name"] for item in requests(collection) if not item["response"]]
    assert without == ["Cancel an order"]


def test_collection_goes_to_a_file(tmp_path: Path, collection: Any) -> None:
    file = tmp_path / "petstore.json"
    assert run(str(file)) == f"Done. Wrote 8 requests to {file}.\n"
    assert json.loads(file.read_text()) == collection
    assert json.loads(run(str(file), "--json")) == {"file": str(file), "requests": 8}
    assert json.loads(run("-")) == collection


def test_file_that_can_t_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"can't be written: Is a directory\."):
        run(str(tmp_path))
