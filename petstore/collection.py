"""The API as a collection for Postman and Bruno, made from the OpenAPI document (Postman's format 2.1).

Whoever imports it sets one variable, `apiKey`, and can send every request.
"""

import json
from http import HTTPStatus
from typing import Any

Json = dict[str, Any]

SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
METHODS = ("get", "post", "delete")


def collection(document: Json) -> Json:
    """Return the collection of a document: a folder for each tag, a request for each operation."""
    operations = [
        (path, method, item[method])
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]
    return {
        "info": {
            "name": document["info"]["title"],
            "description": document["info"]["description"],
            "version": document["info"]["version"],
            "schema": SCHEMA,
        },
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{apiKey}}", "type": "string"}]},
        "variable": [
            {"key": "baseUrl", "value": document["servers"][0]["url"], "type": "string"},
            {"key": "apiKey", "value": "", "type": "string", "description": "Your API key."},
        ],
        "item": [
            {
                "name": tag["name"],
                "description": tag["description"],
                "item": [
                    item(path, method, operation)
                    for path, method, operation in operations
                    if operation["tags"][0] == tag["name"]
                ],
            }
            for tag in document["tags"]
        ],
    }


def item(path: str, method: str, operation: Json) -> Json:
    """Return one operation as a request, with its successful answers as examples."""
    request: Json = {
        "method": method.upper(),
        "description": operation["description"],
        "header": headers(operation),
        "url": url(path, operation),
    }
    if "requestBody" in operation:
        examples = operation["requestBody"]["content"]["application/json"]["examples"]
        request["body"] = {
            "mode": "raw",
            "raw": as_text(next(iter(examples.values()))["value"]),
            "options": {"raw": {"language": "json"}},
        }
    return {
        "name": operation["summary"],
        "request": request,
        "response": [
            answer(int(status), name, example["value"], request)
            for status, response in operation["responses"].items()
            if status < "300"
            for name, example in examples_of(response).items()
        ],
    }


def headers(operation: Json) -> list[Json]:
    """Return the request's headers; the optional ones are there, and switched off."""
    optional: list[Json] = [
        {
            "key": parameter["name"],
            "value": parameter.get("example", ""),
            "description": parameter["description"],
            "disabled": True,
        }
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "header"
    ]
    if "requestBody" in operation:
        return [{"key": "Content-Type", "value": "application/json"}, *optional]
    return optional


def url(path: str, operation: Json) -> Json:
    """Return the request's URL; optional query parameters are there, and switched off."""
    parts = [
        f":{part.strip('{}')}" if part.startswith("{") else part for part in path.strip("/").split("/")
    ]
    parameters = operation.get("parameters", [])
    query = [
        {
            "key": parameter["name"],
            "value": str(parameter["schema"].get("default", "")),
            "description": parameter["description"],
            "disabled": True,
        }
        for parameter in parameters
        if parameter["in"] == "query"
    ]
    variables = [
        {"key": parameter["name"], "value": "1", "description": parameter["description"]}
        for parameter in parameters
        if parameter["in"] == "path"
    ]
    found: Json = {"raw": "/".join(["{{baseUrl}}", *parts]), "host": ["{{baseUrl}}"], "path": parts}
    return found | ({"query": query} if query else {}) | ({"variable": variables} if variables else {})


def examples_of(response: Json) -> Json:
    """Return the examples of an answer's body, by name; an answer without a body has none."""
    return dict(response.get("content", {}).get("application/json", {}).get("examples", {}))


def answer(status: int, name: str, body: Any, request: Json) -> Json:
    """Return an example of an answer."""
    return {
        "name": name,
        "originalRequest": request,
        "code": status,
        "status": HTTPStatus(status).phrase,
        "header": [{"key": "Content-Type", "value": "application/json"}],
        "body": as_text(body),
        "_postman_previewlanguage": "json",
    }


def as_text(value: Any) -> str:
    """Return JSON for people."""
    return json.dumps(value, indent=2)
