"""The OpenAPI document is the golden one, keeps its own rules, and says what the service does.

What stands in the golden document is not repeated here: its diff shows each change.
"""

import gzip
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from accounts.models import EventType, Plan, PlanCode
from inventory.models import Pet
from inventory.views import CategoryViewSet, OrderViewSet, PetViewSet
from petstore.api.errors import ErrorCode
from petstore.api.openapi import views
from petstore.api.views import ApiView
from tests.conftest import Api
from tests.support.live import ROOT

GOLDEN = ROOT / "tests/openapi.yaml"
OPERATIONS = {
    "getAccount": ("/account", "get"),
    "listEvents": ("/events", "get"),
    "listPets": ("/pets", "get"),
    "createPet": ("/pets", "post"),
    "getPet": ("/pets/{petId}", "get"),
    "listCategories": ("/categories", "get"),
    "listOrders": ("/store/orders", "get"),
    "placeOrder": ("/store/orders", "post"),
    "getOrder": ("/store/orders/{orderId}", "get"),
    "cancelOrder": ("/store/orders/{orderId}", "delete"),
}
LISTS = ["listPets", "listCategories", "listOrders"]
CREATIONS = ["createPet", "placeOrder"]


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return dict(json.loads(views.as_json()))


def operation(spec: dict[str, Any], name: str) -> dict[str, Any]:
    path, method = OPERATIONS[name]
    found = spec["paths"][path][method]
    assert found["operationId"] == name
    return dict(found)


def operations(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in spec["paths"].values() for operation in path.values()]


def parameter(spec: dict[str, Any], of: str, name: str) -> dict[str, Any]:
    return dict(next(one for one in operation(spec, of)["parameters"] if one["name"] == name))


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def test_document_is_the_golden_one_and_builds_without_a_warning(tmp_path: Path) -> None:
    built = tmp_path / "openapi.yaml"
    call_command("spectacular", "--file", str(built), "--validate", "--fail-on-warn")
    renew = (
        f"SECRET_KEY={shlex.quote(settings.SECRET_KEY)} "  # It signs the cursors that are examples.
        f"BASE_URL={settings.BASE_URL} STAGING_BASE_URL={settings.STAGING_BASE_URL} "
        f".venv/bin/python manage.py spectacular --file tests/{GOLDEN.name}"
    )
    assert built.read_text() == GOLDEN.read_text(), (
        f"The document has changed. If that is meant, renew the golden copy and read its diff:\n{renew}"
    )


def test_served_documents_are_the_golden_one(client: Client) -> None:
    golden = yaml.safe_load(GOLDEN.read_text())
    assert client.get("/openapi.json").json() == golden
    assert yaml.safe_load(client.get("/openapi.yaml").content) == golden


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/openapi.json", "application/json"),
        ("/openapi.yaml", "application/yaml"),
        ("/docs", "text/html; charset=utf-8"),
    ],
)
def test_documentation_needs_no_key_and_costs_no_quota(
    client: Client, settings: Any, path: str, media_type: str
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 1
    for _ in range(3):
        response = client.get(path)
        assert response.status_code == 200
        assert response["Content-Type"] == media_type
        assert "X-RateLimit-Limit" not in response


@pytest.mark.parametrize("path", ["/openapi.json", "/openapi.yaml"])
def test_served_document_is_compressed_and_not_sent_twice(client: Client, path: str) -> None:
    whole = client.get(path)
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


def test_pattern_of_a_name_allows_exactly_what_is_kept_after_trimming(spec: dict[str, Any]) -> None:
    pattern = re.compile(spec["components"]["schemas"]["NewPet"]["properties"]["name"]["pattern"])
    for character in map(chr, range(sys.maxunicode + 1)):
        assert bool(pattern.search(character)) is (bool(character.strip()) and character != "\0"), ascii(
            character
        )


def test_codes_of_errors_are_those_of_the_program(spec: dict[str, Any]) -> None:
    codes = spec["components"]["schemas"]["Error"]["properties"]["code"]["enum"]
    assert codes == [code.value for code in ErrorCode]


@pytest.mark.parametrize(
    ("name", "view"), list(zip(LISTS, [PetViewSet, CategoryViewSet, OrderViewSet], strict=True))
)
def test_a_list_documents_the_filters_that_it_has(
    spec: dict[str, Any], name: str, view: type[ApiView]
) -> None:
    parameters = operation(spec, name)["parameters"]
    queries = {one["name"] for one in parameters if one["in"] == "query"} - {"limit", "cursor"}
    assert queries == {one.name for one in view.filters}


def without(node: Any, names: set[str]) -> Any:
    """Return a part of the document without members, parameters and headers of these names."""
    if isinstance(node, dict):
        return {key: without(each, names) for key, each in node.items() if key not in names}
    if isinstance(node, list):
        return [
            without(each, names)
            for each in node
            if not (isinstance(each, dict) and each.get("name") in names)
        ]
    return node


def integers(node: Any) -> Iterator[dict[str, Any]]:
    """Yield each schema of an integer."""
    if isinstance(node, dict):
        if node.get("type") == "integer":
            yield node
        for each in node.values():
            yield from integers(each)
    elif isinstance(node, list):
        for each in node:
            yield from integers(each)


def test_every_integer_that_32_bits_do_not_hold_is_an_int64_with_its_bounds(spec: dict[str, Any]) -> None:
    small = {"limit", "quantity", "status", "Retry-After"}
    wide = [schema for schema in integers(without(spec, small)) if "minimum" in schema]
    assert len(wide) == len(list(integers(without(spec, small)))) > 15
    for schema in wide:
        assert (schema["format"], schema["maximum"]) == ("int64", 2**63 - 1)
        assert schema["minimum"] in {-(2**63), 0, 1}


def parameters(spec: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(one, parameter) for one in operations(spec) for parameter in one["parameters"]]


def test_every_parameter_has_an_example_but_what_tools_must_not_send(spec: dict[str, Any]) -> None:
    missing = {
        (one["operationId"], parameter["name"])
        for one, parameter in parameters(spec)
        if "example" not in parameter
    }
    keys = {(name, "Idempotency-Key") for name in CREATIONS}
    assert missing == keys | {("listEvents", "cursor")}  # It goes without `since`.


def test_idempotency_keys_that_a_tool_makes_up_differ_by_operation(spec: dict[str, Any]) -> None:
    schemas = [parameter(spec, name, "Idempotency-Key")["schema"] for name in CREATIONS]
    assert schemas[0] != schemas[1]  # Postman makes up one value for equal schemas.
    assert not [word for schema in schemas for word in ("example", "default") if word in schema]


@pytest.mark.django_db
@pytest.mark.parametrize("together", [True, False], ids=["together", "each alone"])
def test_examples_of_parameters_work_against_the_demo_s_data(
    api: Api, spec: dict[str, Any], *, together: bool
) -> None:
    call_command("seed_demo", "--pets", "300", verbosity=0)
    pet = Pet.objects.earliest("pk").pk
    order = api.post("/store/orders", {"petId": pet}).json()["id"]
    for name, (path, method) in OPERATIONS.items():
        if method == "post":
            continue
        found = [one for one in operation(spec, name)["parameters"] if "example" in one]
        of_path = {one["name"]: one["example"] for one in found if one["in"] == "path"}
        assert set(of_path.values()) <= {1}  # The first of a new database, where ids begin.
        url = path.format(**{name: {"petId": pet, "orderId": order}[name] for name in of_path})
        query = [(one["name"], one["example"]) for one in found if one["in"] == "query"]
        headers = {one["name"]: one["example"] for one in found if one["in"] == "header"}
        for sent in [query] if together else [[one] for one in query]:
            answer = api(method.upper(), f"{url}?{urlencode(sent)}", **headers)
            assert answer.status_code in {200, 204}, (url, sent, answer.content)


def test_license_of_document_project_and_readme_agree(spec: dict[str, Any]) -> None:
    name = spec["info"]["license"]["name"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == f"LicenseRef-{name}"
    assert f"## License\n\n{name}: " in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", CREATIONS)
def test_pattern_of_an_idempotency_key_allows_visible_characters(spec: dict[str, Any], name: str) -> None:
    pattern = re.compile(parameter(spec, name, "Idempotency-Key")["schema"]["pattern"])
    for character in map(chr, range(256)):
        assert bool(pattern.search(character)) is ("!" <= character <= "~"), ascii(character)


def test_every_operation_needs_a_bearer_key(spec: dict[str, Any]) -> None:
    (name,) = spec["components"]["securitySchemes"]
    scheme = spec["components"]["securitySchemes"][name]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert all(one["security"] == [{name: []}] for one in operations(spec))


def test_every_refusal_is_an_error(spec: dict[str, Any]) -> None:
    for one in operations(spec):
        for status, response in one["responses"].items():
            if status >= "400":
                assert response["content"]["application/json"]["schema"] == ref("Error")


def test_every_example_of_an_error_has_its_own_status(spec: dict[str, Any]) -> None:
    for one in operations(spec):
        for status, response in one["responses"].items():
            examples = response.get("content", {}).get("application/json", {}).get("examples", {})
            for code, example in examples.items():
                if status >= "400":
                    assert (example["value"]["code"], example["value"]["status"]) == (code, int(status))


def test_headers_of_every_response_are_named(spec: dict[str, Any]) -> None:
    always = {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id"}
    by_status = {"201": {"Location"}, "304": {"ETag"}, "401": {"WWW-Authenticate"}, "429": {"Retry-After"}}
    for one in operations(spec):
        for status, response in one["responses"].items():
            named = response["headers"].keys()
            assert always | by_status.get(status, set()) <= named, (one["operationId"], status)


def test_body_of_a_link_is_no_object_in_which_an_expression_would_be_sent_as_it_stands(
    spec: dict[str, Any],
) -> None:
    for one in operations(spec):
        for response in one["responses"].values():
            for link in response.get("links", {}).values():
                assert isinstance(link.get("requestBody", ""), str)


def test_every_body_has_an_example_with_a_summary(spec: dict[str, Any]) -> None:
    for one in operations(spec):
        bodies = [one["requestBody"]] if "requestBody" in one else []
        bodies += [response for response in one["responses"].values() if "content" in response]
        for body in bodies:
            examples = body["content"]["application/json"]["examples"]
            assert examples
            assert all(example["summary"] and example["value"] for example in examples.values())


def test_every_header_and_tag_is_explained(spec: dict[str, Any]) -> None:
    assert all(one["description"] and "example" in one for one in spec["components"]["headers"].values())
    assert all(tag["description"] for tag in spec["tags"])
    assert spec["tags"][0]["name"] == "pets"
    used = {tag for one in operations(spec) for tag in one["tags"]}
    assert used == {tag["name"] for tag in spec["tags"]}


def test_every_operation_names_its_scope_and_its_cost(spec: dict[str, Any]) -> None:
    for one in operations(spec):
        if one["operationId"] == "getAccount":
            continue
        tag = one["tags"][0].replace("categories", "pets")
        writes = one["operationId"] in {*CREATIONS, "cancelOrder"}
        assert f"Needs the scope `{tag}:{'write' if writes else 'read'}`." in one["description"]
        assert one["x-rate-limit"]["cost"] == 1


@pytest.mark.django_db
def test_rate_limits_of_the_document_are_the_plans_of_a_new_database(spec: dict[str, Any]) -> None:
    assert "`x-rate-limits` are those on delivery" in spec["info"]["description"]
    told = dict(spec["info"]["x-rate-limits"])
    assert told.pop("enterprise") == "agreed with each account"
    plans = Plan.objects.exclude(pk=PlanCode.ENTERPRISE)
    assert told == {plan.pk: {"per-minute": plan.per_minute, "per-day": plan.per_day} for plan in plans}


@pytest.mark.parametrize(
    ("name", "code", "body", "headers"),
    [
        ("createPet", "malformed_json", b'{"name": Rex}', {}),
        ("createPet", "missing_field", {"name": "Rex"}, {}),
        ("createPet", "invalid_field", {"name": 1, "categoryId": 1}, {}),
        ("createPet", "unknown_category", {"name": "Rex", "categoryId": 0}, {}),
        ("createPet", "invalid_parameter", {}, {"Idempotency_Key": "a b"}),
        ("createPet", "unsupported_media_type", b"name=Rex", {"Content_Type": "text/plain"}),
        ("placeOrder", "missing_field", {}, {}),
        ("placeOrder", "invalid_field", {"petId": "1"}, {}),
        ("placeOrder", "pet_not_found", {"petId": 0}, {}),
        ("listPets", "invalid_parameter", None, {}),
        ("listOrders", "invalid_parameter", None, {}),
        ("listCategories", "invalid_parameter", None, {}),
    ],
)
def test_example_of_a_refusal_is_what_the_service_answers(
    *, api: Api, spec: dict[str, Any], name: str, code: str, body: Any, headers: dict[str, str]
) -> None:
    path, method = OPERATIONS[name]
    answer = api(method.upper(), path + "?limit=0" * (method == "get"), body, **headers)
    responses = operation(spec, name)["responses"]
    examples = responses[str(answer.status_code)]["content"]["application/json"]["examples"]
    assert answer.json() == examples[code]["value"]


def test_examples_of_requests_are_accepted(api: Api, spec: dict[str, Any]) -> None:
    for name in CREATIONS:
        content = operation(spec, name)["requestBody"]["content"]["application/json"]
        for example in content["examples"].values():
            body = example["value"]
            if "petId" in body:
                body = {"petId": api.get("/pets?status=available").json()[0]["id"]}
            assert api.post(OPERATIONS[name][0], body).status_code == 201


def test_feed_shows_an_event_of_each_type(spec: dict[str, Any]) -> None:
    answer = operation(spec, "listEvents")["responses"]["200"]
    events = answer["content"]["application/json"]["examples"]["Page"]["value"]
    assert [one["type"] for one in events] == EventType.values
