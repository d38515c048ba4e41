"""The OpenAPI document equals the golden copy, obeys its own rules, and describes the service."""

import gzip
import json
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from accounts.models import Plan, PlanCode
from inventory.models import Pet
from petstore.api.openapi import views
from tests.conftest import COMMITTED, Api
from tests.support.live import ROOT

pytestmark = pytest.mark.same_on_both
GOLDEN = ROOT / "tests/openapi.yaml"
CREATIONS = ["createPet", "placeOrder"]


Operations = dict[str, tuple[str, str, dict[str, Any]]]  # Path, method and description by ID.


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return dict(json.loads(views.render_json()))


@pytest.fixture(scope="module")
def operations(spec: dict[str, Any]) -> Operations:
    return {
        operation["operationId"]: (path, method.upper(), operation)
        for path, methods in spec["paths"].items()
        for method, operation in methods.items()
    }


def test_document_is_the_golden_one_and_builds_without_a_warning(tmp_path: Path) -> None:
    built = tmp_path / "openapi.yaml"
    call_command("spectacular", "--file", str(built), "--validate", "--fail-on-warn")
    renew = (
        f"SECRET_KEY={shlex.quote(settings.SECRET_KEY)} "  # Signs the cursors in the examples.
        f"BASE_URL={settings.BASE_URL} STAGING_BASE_URL={settings.STAGING_BASE_URL} "
        f".venv/bin/python manage.py spectacular --file tests/{GOLDEN.name}"
    )
    assert built.read_text() == GOLDEN.read_text(), (
        f"The document has changed. If that is meant, renew the golden copy and read its diff:\n{renew}"
    )


def test_served_documents_are_the_golden_one(client: Client) -> None:
    golden = GOLDEN.read_text()
    assert client.get("/openapi.yaml").text == golden
    assert client.get("/openapi.json").json() == yaml.load(golden, yaml.CSafeLoader)  # Fast.


@pytest.mark.parametrize("path", ["/openapi.json", "/openapi.yaml"])
def test_served_document_needs_no_key_is_compressed_and_not_sent_twice(client: Client, path: str) -> None:
    whole = client.get(path)
    assert whole["Content-Type"] == f"application/{path.rpartition('.')[2]}"
    assert "X-RateLimit-Limit" not in whole
    packed = client.get(path, headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(packed.content) == whole.content
    assert len(packed.content) * 4 < len(whole.content)
    assert packed["Content-Encoding"] == "gzip"
    for response in (whole, packed):
        assert "Accept-Encoding" in response["Vary"]
        for method in (client.get, client.head):
            again = method(path, headers={"If-None-Match": response["ETag"], "Accept-Encoding": "gzip"})
            assert (again.status_code, again.content) == (304, b"")
            assert again["ETag"].removeprefix("W/") == whole["ETag"]
            assert "Accept-Encoding" in again["Vary"]
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_patterns_of_names_and_keys_match_validation(spec: dict[str, Any], operations: Operations) -> None:
    for name in CREATIONS:
        (parameter,) = operations[name][2]["parameters"]
        assert parameter["name"] == "Idempotency-Key"
        pattern = re.compile(parameter["schema"]["pattern"])
        for character in map(chr, range(256)):
            assert bool(pattern.search(character)) is ("!" <= character <= "~"), ascii(character)
    pattern = re.compile(spec["components"]["schemas"]["NewPet"]["properties"]["name"]["pattern"])
    for character in map(chr, range(0x10000)):
        is_valid = bool(character.strip()) and character != "\0"
        assert bool(pattern.search(character)) is is_valid, ascii(character)


@pytest.mark.django_db
@pytest.mark.parametrize("together", [True, False], ids=["together", "each alone"])
def test_examples_of_parameters_work(api: Api, operations: Operations, *, together: bool) -> None:
    call_command("seed_demo", "--pets", "300", verbosity=0)
    pet = Pet.objects.earliest("pk").pk
    order = api.post("/store/orders", {"petId": pet}).json()["id"]
    for path, method, operation in operations.values():
        if method == "POST":
            continue
        parameters = [item for item in operation["parameters"] if "example" in item]
        path_examples = {item["name"]: item["example"] for item in parameters if item["in"] == "path"}
        assert set(path_examples.values()) <= {1}  # The first id of a new database.
        url = path.format(**{name: {"petId": pet, "orderId": order}[name] for name in path_examples})
        query = [
            (item["name"], ",".join(map(str, example)) if isinstance(example, list) else example)
            for item, example in ((item, item["example"]) for item in parameters if item["in"] == "query")
        ]
        headers = {item["name"]: item["example"] for item in parameters if item["in"] == "header"}
        for pairs in [query] if together else [[pair] for pair in query]:
            response = api(method, f"{url}?{urlencode(pairs)}", **headers)
            assert response.status_code in {200, 204}, (url, pairs, response.content)


@pytest.mark.django_db
def test_rate_limits_of_the_document_are_the_plans_of_a_new_database(spec: dict[str, Any]) -> None:
    documented = dict(spec["info"]["x-rate-limits"])
    assert documented.pop("enterprise") == "agreed with each account"
    plans = Plan.objects.exclude(pk=PlanCode.ENTERPRISE).values_list("pk", "per_minute", "per_day")
    assert documented == {pk: {"per-minute": minute, "per-day": day} for pk, minute, day in plans}


@pytest.mark.parametrize(
    ("name", "code", "body", "headers"),
    [
        ("createPet", "malformed_json", b'{"name": Rex}', {}),
        ("createPet", "missing_field", {"name": "Rex"}, {}),
        ("createPet", "invalid_field", {"name": 1, "categoryId": 1}, {}),
        pytest.param(
            *("createPet", "unknown_category", {"name": "Rex", "categoryId": 0}, {}), marks=COMMITTED
        ),
        ("createPet", "invalid_parameter", {}, {"Idempotency_Key": "a b"}),
        ("createPet", "unsupported_media_type", b"name=Rex", {"Content_Type": "text/plain"}),
        ("placeOrder", "pet_not_found", {"petId": 0}, {}),
        ("listOrders", "invalid_parameter", None, {}),
    ],
)
def test_example_of_an_error_is_the_actual_response(
    *, api: Api, operations: Operations, name: str, code: str, body: Any, headers: dict[str, str]
) -> None:
    path, method, operation = operations[name]
    response = api(method, path + "?limit=0" * (method == "GET"), body, **headers)
    examples = operation["responses"][str(response.status_code)]["content"]["application/json"]["examples"]
    assert response.json() == examples[code]["value"]
