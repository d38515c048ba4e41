"""Helpers for the apps' openapi.py modules, which describe their operations.

Imported only when the document is built, because drf-spectacular is slow to import.
"""

from collections.abc import Iterable
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema, extend_schema_view

from petstore.api.errors import ErrorCode as Code

Examples = dict[str, tuple[str, Any]]  # Summary and value by name.


def build_operation(
    operation_id: str,
    summary: str,
    description: str,
    *,
    response: tuple[int, Any, str],
    examples: Examples | None = None,
    errors: list[Code] | None = None,
    error_examples: Iterable[tuple[Code, str, str]] = (),
    links: dict[str, dict[str, Any]] | None = None,
    extensions: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Build the arguments of `extend_schema`, with extensions for `hooks.complete_document`.

    `response` is a status, a serializer and a description. `errors` lists the codes that
    `complete_document` does not add. `error_examples` lists codes, each with the field and the message of
    its detail. `links` are those of the response, by operation ID.
    """
    status, serializer, response_description = response
    response_examples = build_examples(examples or {})
    details = {
        code: {"details": [{"field": field, "code": code.value, "message": message}]}
        for code, field, message in error_examples
    }
    response_links = {name: {"operationId": name, **link} for name, link in (links or {}).items()}
    return {
        "operation_id": operation_id,
        "summary": summary,
        "description": description,
        "responses": {status: OpenApiResponse(serializer, response_description, response_examples)},
        "extensions": {
            "x-error-codes": errors or [],
            "x-error-examples": details,
            "x-links": {str(status): response_links} if links else {},
            **(extensions or {}),
        },
        **options,
    }


def build_list_operation(
    operation_id: str,
    noun: str,
    description: str,
    serializer: Any,
    example: tuple[str, Any],
    **options: Any,
) -> dict[str, Any]:
    """Build the arguments for a paginated list; `example` is the summary and value of a page.

    `options` are those of `build_operation`, such as `parameters` and `errors`.
    """
    return build_operation(
        operation_id,
        f"List {noun}",
        f'{description} Follow `Link: rel="next"` for the next page.',
        response=(200, serializer(many=True), f"One page of {noun}."),
        examples={"Page": example},
        **options,
    )


def build_examples(examples: Examples) -> list[OpenApiExample]:
    return [OpenApiExample(name, value, summary=summary) for name, (summary, value) in examples.items()]


def describe_operations(viewset: Any, tag: str, operations: dict[str, Any]) -> None:
    """Attach the operations to the viewset, by action, and add the scope that each requires."""
    schemas = {}
    for action, operation in operations.items():
        scope = viewset.required_scopes.get(action)
        requirement = f"the scope `{scope}`" if scope else "no scope; any valid key works"
        description = f"{operation['description']} Requires {requirement}."
        extensions = operation["extensions"] | ({"x-required-scope": scope} if scope else {})
        options = operation | {"description": description, "extensions": extensions}
        schemas[action] = extend_schema(**options, tags=[tag])
    extend_schema_view(**schemas)(viewset)
