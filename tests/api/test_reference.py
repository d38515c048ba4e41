"""The reference displays everything that the OpenAPI document says."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils.html import strip_tags

from accounts.models.events import TYPES
from petstore.api.openapi.headers import COMMON_HEADERS
from petstore.api.openapi.views import get_document, render_json
from petstore.site.reference import SAMPLES, get_operations, resolve_references
from petstore.templatetags.documentation import render_text
from petstore.templatetags.openapi import constraints_of, fields_of, type_of

pytestmark = pytest.mark.same_on_both
Document = dict[str, Any]


def read(client: Client, operation_id: str) -> tuple[str, str]:
    """Return the page of an operation, and the text of its content as one line."""
    page = client.get(f"/docs/operations/{operation_id}").text
    content = page.partition("<main")[2].partition("</main>")[0]
    return page, " ".join(html.unescape(strip_tags(content)).split())


def find_operations() -> Iterator[tuple[str, str, Document]]:
    for path, methods in json.loads(render_json())["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def follow(schema: Document) -> Document:
    if "$ref" not in schema:
        return schema
    return dict(get_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]])


def find_names(schema: Document) -> Iterator[tuple[str, Document]]:
    """Yield the fields of a schema at every depth."""
    schema = follow(schema)
    for part in (*schema.get("allOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from find_names(part)
    for name, field in schema.get("properties", {}).items():
        yield name, field
        yield from find_names(field)


def test_start_page_lists_every_operation_and_common_header(client: Client) -> None:
    page = client.get("/docs").text
    for method, path, operation in find_operations():
        item = (
            rf'<li><a href="/docs/operations/{operation["operationId"]}"[^>]*><span class="method">{method}'
            rf'</span> <code>{path}</code> <span class="summary">{operation["summary"]}</span></a>'
            r"(.*?)</li>"
        )
        (rest,) = re.findall(item, page)
        assert ("deprecated" in rest) == ("deprecated" in operation)
    for name in COMMON_HEADERS:
        assert f'<dt id="header-{name}">' in page
    assert settings.BASE_URL in page


def test_operation_page_has_everything_of_the_document(client: Client) -> None:
    for method, path, operation in find_operations():
        name = operation["operationId"]
        page, text = read(client, name)
        assert re.findall('<a href="([^"]*)" aria-current="page">', page) == [f"/docs/operations/{name}"]
        assert f"<h1>{operation['summary']}</h1>" in page
        assert f"{method} {path} {name}" in text
        assert operation["description"].replace("`", "") in text
        assert f"Scope {operation.get('x-required-scope', 'none')}" in text
        assert f'<code id="{SAMPLES[name]}.py">' in page
        assert ("The request is real" in text) == (method != "GET")
        for parameter in operation["parameters"]:
            assert f'<dt id="{parameter["in"]}-{parameter["name"]}">' in page
            assert parameter["description"].replace("`", "") in text
            for value in follow(parameter["schema"]).get("enum", ()):
                assert f"<code>{value}</code>" in page
        for status, response in operation["responses"].items():
            if status < "400":
                assert f'<h3 id="response-{status}">' in page
                assert all(f"<code>{header}</code>" in page for header in response["headers"])
                continue
            for code in response["content"]["application/json"]["examples"]:
                assert f"<summary><code>{code}</code> {status}</summary>" in page
                assert f'<a href="/docs/errors#{code}">' in page
        check_bodies(operation, page, text)
    assert SAMPLES.keys() == get_operations().keys()
    assert client.get("/docs/operations/nothing").status_code == 404


def check_bodies(operation: Document, page: str, text: str) -> None:
    successes = [response for status, response in operation["responses"].items() if status < "400"]
    for content in (operation.get("requestBody", {}), *successes):
        for media_type in content.get("content", {}).values():
            for name, field in find_names(media_type["schema"]):
                assert re.search(rf'<dt id="[^"]*\b{name}"><code>[^<]*\b{name}</code>', page)
                assert field.get("description", "") in text
            for example in media_type["examples"].values():
                assert " ".join(json.dumps(example["value"], indent=2).split()) in text


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("listPets", "Minimum 1; maximum 100; default 20. Example: 20"),
        ("listPets", "Cost 1 request of each quota of the account (minute, day)"),
        ("getAccount", "Cost none; at most 60 of these requests per minute with each key"),
        ("createPet", "status string, optional Availability status. Default available; one of available"),
        ("createPet", "Min length 1; max length 255; pattern ^"),
        ("placeOrder", "this is production"),
    ],
)
def test_bounds_defaults_costs_and_warnings_are_shown(client: Client, name: str, sentence: str) -> None:
    assert sentence in read(client, name)[1]


def test_event_types_are_shown_with_their_data(client: Client) -> None:
    page = read(client, "listEvents")[0]
    data = page.partition("<h4>Data by event type</h4>")[2].partition("<details")[0]
    types = re.findall(r"<code>([a-z_]+\.[a-z_]+)</code>", data)
    assert sorted(types) == sorted(name for name in TYPES if "." in name)
    assert '"firstId": 301' in html.unescape(data)


def test_demo_key_is_shown_where_its_scopes_suffice_but_not_copied(client: Client, settings: Any) -> None:
    settings.DEMO_KEY = "psk_live_demo"
    names = {name for name in SAMPLES if "psk_live_demo" in client.get(f"/docs/operations/{name}").text}
    assert names == {"listPets", "getPet", "listCategories", "getAccount"}
    page = read(client, "listPets")[0]
    shown = re.findall(r'<code id="(first_call\.\w+)">(.*?)</code>', page, re.DOTALL)
    assert len(shown) == 3
    for file, code in shown:
        assert "Bearer psk_live_demo" in html.unescape(strip_tags(code))
        copied = re.sub(r'<span data-copied="([^"]*)">psk_live_demo</span>', r"\1", code)
        assert html.unescape(strip_tags(copied)) == render_text(f"docs/examples/{file}")
    assert '<input id="try-key" type="password" value="psk_live_demo"' in page
    assert "psk_live_demo" not in client.get("/docs/operations/listPets.md").text


def test_schemas_are_resolved_at_every_depth() -> None:
    parts = {
        "Sized": {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]},
        "Cat": {"allOf": [{"$ref": "#/parts/Sized"}], "properties": {"mother": {"$ref": "#/parts/Cat"}}},
        "Dog": {"type": "object", "properties": {"tags": {"type": "array", "items": {"enum": ["a", "b"]}}}},
    }
    schema = {"type": "array", "items": {"oneOf": [{"$ref": "#/parts/Cat"}, {"$ref": "#/parts/Dog"}]}}
    resolved = resolve_references(schema, {"parts": parts})
    assert type_of(resolved) == "array of object"
    assert [(path, type_of(field), required) for path, field, required in fields_of(resolved)] == [
        ("size", "integer", True), ("mother", "Cat", False), ("tags", "array of any type", False)
    ]  # fmt: skip
    assert constraints_of(resolved["items"]["oneOf"][1]["properties"]["tags"]) == ["one of `a`, `b`"]
    nested = {"properties": {"details": {"type": "array", "items": parts["Sized"], "maxItems": 9}}}
    assert [path for path, _, _ in fields_of(nested)] == ["details", "details[].size"]
    variants = {"anyOf": [{"type": "string", "format": "date"}, {"type": "integer", "nullable": True}]}
    assert type_of(variants) == "string (date) or integer or null"
