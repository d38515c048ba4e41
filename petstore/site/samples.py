"""Sample requests in many languages, which are filled in from the OpenAPI document.

The templates are files, in which a line is repeated for each header, and left out without what it needs.
try-it.js fills in the same templates with the request of its form.
"""

import json
import re
from typing import Any

from django.conf import settings

from petstore.api.openapi.headers import Schema
from petstore.templatetags.documentation import LANGUAGES, highlighted

FURTHER = {"php": "PHP", "go": "Go", "java": "Java", "cs": "C#", "rb": "Ruby"}
TITLES = LANGUAGES | FURTHER
FOLDER = settings.BASE_DIR / "templates/docs/samples"
TEMPLATES = {suffix: (FOLDER / f"request.{suffix}").read_text("utf-8") for suffix in TITLES}
SINGLE_QUOTED = {"php", "rb"}  # The others quote like JSON.
PLACEHOLDER = re.compile(r"{(url|method|Method|body|content)}")


def build_samples(operation: Schema) -> list[dict[str, Any]]:
    """Build a sample in each language that the examples lack, for docs/example-tabs.html."""
    name = operation["operationId"]
    return [
        {
            "file": f"{name}.{suffix}",
            "title": title,
            "code": highlighted(fill_in(suffix, operation), suffix),
        }
        for suffix, title in FURTHER.items()
    ]


def fill_in(suffix: str, operation: Schema) -> str:
    """Fill in the template of a language with an operation's required parameters and its first example."""
    parameters = {parameter["name"]: parameter for parameter in operation["parameters"]}
    url = settings.BASE_URL + operation["path"]
    for name, parameter in parameters.items():
        if parameter["in"] == "path":
            url = url.replace(f"{{{name}}}", str(parameter["example"]))
    content = get_body(operation)
    left_out = ["{name}", "{header}"] + ["{body}", "Content-Type"] * (not content)
    left_out += ["Idempotency-Key"] * ("Idempotency-Key" not in parameters)
    quoted = {"body": content, "content": content, "url": url, "method": operation["method"]}
    values = {name: quote(value, suffix) for name, value in quoted.items()}
    values["Method"] = operation["method"].capitalize()
    lines = TEMPLATES[suffix].splitlines()
    text = "\n".join(line for line in lines if not any(part in line for part in left_out))
    return PLACEHOLDER.sub(lambda match: values[match[1]], text)


def get_body(operation: Schema) -> str:
    """Return the first example of the body, or an empty string for operations without one."""
    for media_type in operation.get("requestBody", {}).get("content", {}).values():
        return json.dumps(next(iter(media_type["examples"].values()))["value"], ensure_ascii=False)
    return ""


def quote(text: str, suffix: str) -> str:
    if suffix in SINGLE_QUOTED:
        return "'{}'".format(re.sub(r"([\\'])", r"\\\1", text))
    return json.dumps(text, ensure_ascii=False)
