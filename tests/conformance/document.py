"""The OpenAPI document of this checkout, and Schemathesis's checks of responses."""

import re
from pathlib import Path

import requests
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

DOCUMENT = schemathesis.openapi.from_path(Path(__file__).parents[1] / "openapi.yaml")
OPERATIONS = {
    f"{method.upper()} {path}": DOCUMENT[path][method]
    for path, methods in DOCUMENT.raw_schema["paths"].items()
    for method in methods
}
CHECKS = [
    not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_headers_conformance, checks.response_schema_conformance,
]  # fmt: skip


def validate(response: requests.Response, method: str, path: str) -> None:
    """Raise FailureGroup unless the response is as documented for the path, relative to /v1."""
    operation = DOCUMENT.find_operation_by_path(method, path)
    if operation is not None:
        names = re.findall(r"{(\w+)}", operation.path)
        operation.Case(path_parameters=dict.fromkeys(names, "1")).validate_response(response, checks=CHECKS)
