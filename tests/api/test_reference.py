"""The reference displays everything that the OpenAPI document says."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils.html import strip_tags

from petstore.api.openapi.views import get_document, render_json
from petstore.site.reference import SAMPLES, get_operations

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
