"""Breaking changes between two OpenAPI 3.0 documents, as sentences.

What clients send may get no further constraint, and what they receive must stay as it was or gain fields.
Stricter than necessary: a constraint that was changed in either direction is reported. Texts, examples and
extensions are not compared, except for error codes, which are the names of examples.
"""

from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]
UNCOMPARED = {"description", "summary", "title", "tags", "example", "deprecated", "links"}
CONSTRAINTS = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems",
    "maxItems", "uniqueItems", "multipleOf", "minProperties", "maxProperties", "pattern", "format", "type",
    "enum", "required", "additionalProperties", "anyOf", "oneOf", "not", "default",
}  # fmt: skip


def breaking_changes(old: Document, new: Document) -> list[str]:
    """Return one sentence for each change that breaks a client of the old document."""
    before, after = (
        resolve(
            document, {"paths": document["paths"], "security": document["components"]["securitySchemes"]}
        )
        for document in (old, new)
    )
    return [*compare("", before, after, sent=False)]


def compare(where: str, old: Any, new: Any, *, sent: bool) -> Iterator[str]:
    """Yield the breaking changes of a part that clients send or receive."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            yield f"{where} was changed."
        return
    for name, value in select_compared(where, old):
        part = f"{where} {name}".strip()
        if name not in new:
            yield f"{part} was removed."
        elif name == "examples":  # Those of errors are named after their codes.
            if where.partition(" responses ")[2] >= "4":
                yield from (f"{part} {code} was removed." for code in value.keys() - new[name].keys())
        elif isinstance(value, set):
            yield from compare_sets(part, value, new[name], may_grow=sent == (name == "enum"))
        elif name != "security" or new[name]:  # An operation that is open to all accepts any key.
            yield from compare(part, value, new[name], sent=sent or name in {"parameters", "requestBody"})
    yield from compare_additions(where, new.keys() - old.keys(), new, sent=sent)


def select_compared(where: str, old: Document) -> list[tuple[str, Any]]:
    if where.endswith(" properties"):  # Its names are those of fields, such as `description`.
        return list(old.items())
    return [item for item in old.items() if item[0] not in UNCOMPARED and not item[0].startswith("x-")]


def compare_additions(where: str, added: set[str], new: Document, *, sent: bool) -> Iterator[str]:
    """Yield the required parameters and the constraints among what was added."""
    if where.endswith(" properties"):
        return
    if where.endswith(" parameters"):
        yield from (f"{where} {name} is required." for name in added if new[name].get("required"))
    else:
        narrowing = CONSTRAINTS if sent else {"nullable"}
        yield from (f"{where} {name} was added." for name in sorted(added & narrowing))


def compare_sets(where: str, old: set[str], new: set[str], *, may_grow: bool) -> Iterator[str]:
    """Yield the change of an enum or of the required fields."""
    beyond = old - new if may_grow else new - old
    yield from (f"{where} was changed: {name}." for name in sorted(beyond))


def resolve(document: Document, node: Any) -> Any:
    """Resolve all references, and merge the schemas of each allOf into one; lists of names become sets."""
    if isinstance(node, list):
        return [resolve(document, part) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        found: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return resolve(document, found)
    resolved = {name: resolve(document, value) for name, value in node.items() if name != "allOf"}
    for name in ("required", "enum"):
        if isinstance(resolved.get(name), list):
            resolved[name] = set(resolved[name])
    if isinstance(node.get("parameters"), list):
        resolved["parameters"] = {f"{one['name']} ({one['in']})": one for one in resolved["parameters"]}
    for part in resolve(document, node.get("allOf", [])):
        for name, value in part.items():
            is_merged = name in {"required", "properties"} and name in resolved
            resolved[name] = resolved[name] | value if is_merged else resolved.get(name, value)
    return resolved
