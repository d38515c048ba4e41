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

from accounts.events.views import TYPES
from petstore.api.openapi.headers import COMMON_HEADERS
from petstore.api.openapi.views import get_document, render_json
from petstore.site.reference import SAMPLES, get_operations, resolve_references
from petstore.templatetags.documentation import render_text
from petstore.templatetags.openapi import constraints_of, members_of, type_of

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
    """Return the schema that a reference names."""
    if "$ref" not in schema:
        return schema
    return dict(get_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]])


def find_names(schema: Document) -> Iterator[tuple[str, Document]]:
    """Yield the members of a schema at every depth."""
    schema = follow(schema)
    for part in (*schema.get("allOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from find_names(part)
    for name, member in schema.get("properties", {}).items():
        yield name, member
        yield from find_names(member)


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


def test_operation_page_has_its_description_scope_and_parameters(client: Client) -> None:
    for method, path, operation in find_operations():
        page, text = read(client, operation["operationId"])
        assert f"<h1>{operation['summary']}</h1>" in page
        assert f"{method} {path} {operation['operationId']}" in text
        assert operation["description"].replace("`", "") in text
        assert f"Scope {operation.get('x-required-scope', 'none')}" in text
        for parameter in operation["parameters"]:
            assert f'<dt id="{parameter["in"]}-{parameter["name"]}">' in page
            assert parameter["description"].replace("`", "") in text
            for value in follow(parameter["schema"]).get("enum", ()):
                assert f"<code>{value}</code>" in page


def test_operation_page_has_every_response(client: Client) -> None:
    for _, _, operation in find_operations():
        page, _ = read(client, operation["operationId"])
        for status, response in operation["responses"].items():
            if status < "400":
                assert f'<h3 id="response-{status}">' in page
                assert all(f"<code>{name}</code>" in page for name in response["headers"])
                continue
            for code in response["content"]["application/json"]["examples"]:
                assert f"<summary><code>{code}</code> {status}</summary>" in page
                assert f'<a href="/docs/errors#{code}">' in page


def test_operation_page_has_every_member_and_example(client: Client) -> None:
    for _, _, operation in find_operations():
        page, text = read(client, operation["operationId"])
        successes = [response for status, response in operation["responses"].items() if status < "400"]
        for content in (operation.get("requestBody", {}), *successes):
            for media_type in content.get("content", {}).values():
                for name, member in find_names(media_type["schema"]):
                    assert re.search(rf'<dt id="[^"]*\b{name}"><code>[^<]*\b{name}</code>', page)
                    assert member.get("description", "") in text
                for example in media_type["examples"].values():
                    assert " ".join(json.dumps(example["value"], indent=2).split()) in text


def test_every_operation_has_a_sample(client: Client) -> None:
    assert client.get("/docs/operations/nothing").status_code == 404
    assert SAMPLES.keys() == get_operations().keys()
    for name, sample in SAMPLES.items():
        assert f'<code id="{sample}.py">' in read(client, name)[0]


def test_bounds_defaults_and_examples_are_shown(client: Client) -> None:
    text = read(client, "listPets")[1]
    assert "Minimum 1; maximum 100; default 20. Example: 20" in text
    assert "One of available, pending, sold. Example: available" in text
    text = read(client, "createPet")[1]
    assert (
        "categoryId integer (int64), required Identifier of the category that the pet belongs to." in text
    )
    assert "status string, optional Availability status. Default available; one of available" in text
    assert "Min length 1; max length 255; pattern ^" in text


def test_cost_is_that_of_the_document(client: Client) -> None:
    assert "Cost 1 request of each quota of the account (minute, day)" in read(client, "listPets")[1]
    assert (
        "Cost none; at most 60 of these requests per minute with each key" in read(client, "getAccount")[1]
    )


def test_event_types_are_shown_with_their_data(client: Client) -> None:
    data = (
        read(client, "listEvents")[0].partition("<h4>Data by event type</h4>")[2].partition("<details")[0]
    )
    types = re.findall(r"<code>([a-z_]+\.[a-z_]+)</code>", data)
    assert sorted(types) == sorted(name for name in TYPES if "." in name)
    assert '"firstId": 301' in html.unescape(data)


def test_operation_is_the_current_page_in_the_menu(client: Client) -> None:
    page = read(client, "getPet")[0]
    assert re.findall(r'<a href="([^"]*)" aria-current="page">', page) == ["/docs/operations/getPet"]
    menu = page.partition('aria-label="Documentation"')[2].partition("</nav>")[0]
    assert menu.count('href="/docs/operations/') == len(SAMPLES)


def test_demo_key_is_displayed_in_samples_but_not_copied(client: Client, settings: Any) -> None:
    settings.DEMO_KEY = "psk_live_demo"
    page = read(client, "listPets")[0]
    shown = re.findall(r'<code id="(first_call\.\w+)">(.*?)</code>', page, re.DOTALL)
    assert len(shown) == 3
    for file, code in shown:
        assert "Bearer psk_live_demo" in html.unescape(strip_tags(code))
        copied = re.sub(r'<span data-copied="([^"]*)">psk_live_demo</span>', r"\1", code)
        assert html.unescape(strip_tags(copied)) == render_text(f"docs/examples/{file}")
    assert '<input id="try-key" type="password" value="psk_live_demo"' in page
    assert "psk_live_demo" not in client.get("/docs/operations/listPets.md").text


@pytest.mark.parametrize("demo_key", ["", "psk_live_demo"])
def test_form_warns_of_writes(client: Client, settings: Any, demo_key: str) -> None:
    settings.DEMO_KEY = demo_key
    assert ("this is production" in read(client, "placeOrder")[1]) == (not demo_key)
    assert "The request is real" in read(client, "placeOrder")[1]
    assert "The request is real" not in read(client, "listOrders")[1]


def test_schemas_are_resolved_at_every_depth() -> None:
    parts = {
        "Sized": {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]},
        "Cat": {"allOf": [{"$ref": "#/parts/Sized"}], "properties": {"mother": {"$ref": "#/parts/Cat"}}},
        "Dog": {"type": "object", "properties": {"tags": {"type": "array", "items": {"enum": ["a", "b"]}}}},
    }
    schema = {"type": "array", "items": {"oneOf": [{"$ref": "#/parts/Cat"}, {"$ref": "#/parts/Dog"}]}}
    resolved = resolve_references(schema, {"parts": parts})
    assert type_of(resolved) == "array of object"
    members = {path: (type_of(member), required) for path, member, required in members_of(resolved)}
    assert members == {
        "size": ("integer", True),
        "mother": ("Cat", False),
        "tags": ("array of any type", False),
    }
    assert constraints_of(resolved["items"]["oneOf"][1]["properties"]["tags"]) == ["one of `a`, `b`"]
    nested = {"properties": {"details": {"type": "array", "items": parts["Sized"], "maxItems": 9}}}
    assert [path for path, _, _ in members_of(nested)] == ["details", "details[].size"]
    variants = {"anyOf": [{"type": "string", "format": "date"}, {"type": "integer", "nullable": True}]}
    assert type_of(variants) == "string (date) or integer or null"
