"""Helpers for the apps' openapi.py, which describe their operations.

Imported only when the document is built: drf-spectacular loads slowly.
"""

from typing import Any

from drf_spectacular.extensions import OpenApiViewExtension
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema, extend_schema_view

from petstore.api.errors import ErrorCode as Code

Examples = dict[str, tuple[str, Any]] | None


def operation(
    operation_id: str,
    summary: str,
    description: str,
    *,
    response: tuple[int, Any, str],
    examples: Examples = None,
    errors: list[Code] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Build arguments of `extend_schema`, with extensions for hooks.complete.

    `response` is a status, a serializer and a description, `examples` maps its names to summary and value,
    and `errors` lists the codes beyond those of every operation.
    """
    status, serializer, text = response
    described = OpenApiResponse(serializer, description=text, examples=as_examples(examples))
    extensions = {"x-error-codes": errors or [], **more.pop("extensions", {})}
    return {
        "operation_id": operation_id,
        "summary": summary,
        "description": description,
        "responses": {status: described},
        "extensions": extensions,
        **more,
    }


def listing(
    operation_id: str, noun: str, description: str, serializer: Any, example: Any
) -> dict[str, Any]:
    """Build the arguments for a paged list; `example` is the summary and value of a page."""
    return operation(
        operation_id,
        f"List {noun}",
        f'{description} Follow `Link: rel="next"` for the next page.',
        response=(200, serializer(many=True), f"One page of {noun}."),
        examples={"Page": example},
    )


def as_examples(found: Examples) -> list[OpenApiExample]:
    return [
        OpenApiExample(name, value, summary=summary) for name, (summary, value) in (found or {}).items()
    ]


def problems(*found: tuple[Code, str, str]) -> dict[Code, Any]:
    return {
        code: {"details": [{"field": field, "code": code.value, "message": message}]}
        for code, field, message in found
    }


def links(**found: dict[str, Any]) -> dict[str, Any]:
    return {"201": {name: {"operationId": name, **link} for name, link in found.items()}}


VIEWS: dict[str, tuple[str, dict[str, Any]]] = {}


def describe(viewset: str, tag: str, operations: dict[str, Any]) -> None:
    """Register an app's viewset by name, with the tag and its operations by action."""
    VIEWS[viewset] = tag, operations


class Operations(OpenApiViewExtension):  # type: ignore[no-untyped-call]
    target_class = "petstore.api.views.ApiView"
    match_subclasses = True

    def view_replacement(self) -> Any:
        tag, operations = VIEWS[self.target.__name__]
        scopes = self.target.required_scopes
        described = {
            action: one | {"description": f"{one['description']} {needs(scopes.get(action))}"}
            for action, one in operations.items()
        }
        schemas = {action: extend_schema(**one, tags=[tag]) for action, one in described.items()}
        return extend_schema_view(**schemas)(self.target)


def needs(scope: str | None) -> str:
    return f"Needs the scope `{scope}`." if scope else "Needs no scope; any valid key works."
