"""Breaking changes between two OpenAPI 3.0 documents, as sentences.

The rules are oasdiff's breaking checks, as far as they apply to our documents: a valid request must stay
valid, and a response may only contain what clients already had to expect. Servers, texts, examples and
extensions are not compared, except for error codes, which are the names of examples.
"""

from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
LOWER = ("minimum", "minLength", "minItems", "minProperties")
UPPER = ("maximum", "maxLength", "maxItems", "maxProperties")
EXACT = ("format", "pattern", "multipleOf", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum")
INT64 = {"minimum": -(2**63), "maximum": 2**63 - 1}
CHOICES = ("anyOf", "oneOf", "not")


def breaking_changes(old: Document, new: Document) -> list[str]:
    """Return one sentence for each change that breaks a client of the old document."""
    return list(Comparison(old, new).changes())


class Comparison:
    def __init__(self, old: Document, new: Document) -> None:
        self.old = old
        self.new = new

    def changes(self) -> Iterator[str]:
        """Yield the breaking changes, path by path."""
        yield from self.security_schemes()
        for path, old_item in self.old["paths"].items():
            new_item = self.new["paths"].get(path)
            if new_item is None:
                yield f"{path}: the path was removed."
                continue
            for method in METHODS:
                if method in old_item and method not in new_item:
                    yield f"{method.upper()} {path}: the operation was removed."
                elif method in old_item:
                    yield from self.operation(
                        f"{method.upper()} {path}", old_item[method], new_item[method]
                    )

    def operation(self, where: str, old: Document, new: Document) -> Iterator[str]:
        if old.get("operationId") != new.get("operationId"):
            yield f"{where}: its operationId was changed, which renames a function of generated clients."
        yield from self.security(where, old, new)
        yield from self.parameters(where, old, new)
        yield from self.request(where, old.get("requestBody"), new.get("requestBody"))
        for status, response in old["responses"].items():
            if status not in new["responses"]:
                yield f"{where}: the response {status} was removed."
            else:
                yield from self.response(f"{where} {status}", response, new["responses"][status])

    def security_schemes(self) -> Iterator[str]:
        """Yield the security schemes that were removed or changed."""
        new = self.new.get("components", {}).get("securitySchemes", {})
        for name, scheme in self.old.get("components", {}).get("securitySchemes", {}).items():
            fields = ("type", "scheme", "in", "name", "openIdConnectUrl")
            replacement = new.get(name, {})
            if any(scheme.get(field) != replacement.get(field) for field in fields):
                yield f"The security scheme {name} was removed or changed."

    def security(self, where: str, old: Document, new: Document) -> Iterator[str]:
        """Yield security requirements that no longer suffice for the operation."""
        before = old.get("security", self.old.get("security", [])) or [{}]
        after = new.get("security", self.new.get("security", [])) or [{}]
        for had in before:
            if not any(
                needs.keys() <= had.keys() and all(set(needs[name]) <= set(had[name]) for name in needs)
                for needs in after
            ):
                yield f"{where}: security was made stricter; {had or 'nothing'} no longer suffices."

    def parameters(self, where: str, old: Document, new: Document) -> Iterator[str]:
        before = {(one["in"], one["name"]): one for one in old.get("parameters", [])}
        after = {(one["in"], one["name"]): one for one in new.get("parameters", [])}
        for place, parameter in after.items():
            required = parameter.get("required", False)
            if required and not before.get(place, {}).get("required", False):
                yield f"{where}: the parameter {place[1]} ({place[0]}) is required now."
        for place, parameter in before.items():
            name = f"{where}: the parameter {place[1]} ({place[0]})"
            if place not in after:
                yield f"{name} was removed."
            else:
                yield from self.schema(name, parameter["schema"], after[place]["schema"], sent=True)

    def request(self, where: str, old: Document | None, new: Document | None) -> Iterator[str]:
        if old is None:
            if new is not None and new.get("required", False):
                yield f"{where}: a body is required now."
            return
        if new is None:
            yield f"{where}: the body of the request was removed."
            return
        if new.get("required", False) and not old.get("required", False):
            yield f"{where}: a body is required now."
        yield from self.content(f"{where} request", old, new, sent=True)

    def response(self, where: str, old: Document, new: Document) -> Iterator[str]:
        yield from self.content(where, old, new, sent=False)
        for name, reference in old.get("headers", {}).items():
            header = resolve(self.old, reference)
            if name not in new.get("headers", {}):
                yield f"{where}: the header {name} was removed."
                continue
            after = resolve(self.new, new["headers"][name])
            if header.get("required", False) and not after.get("required", False):
                yield f"{where}: the header {name} may be missing now."
            yield from self.schema(
                f"{where}: the header {name}", header["schema"], after["schema"], sent=False
            )

    def content(self, where: str, old: Document, new: Document, *, sent: bool) -> Iterator[str]:
        for media_type, media in old.get("content", {}).items():
            after = new.get("content", {}).get(media_type)
            if after is None:
                yield f"{where}: the media type {media_type} was removed."
                continue
            yield from self.schema(where, media["schema"], after["schema"], sent=sent)
            if not sent and where[-3:] >= "400":
                for code in media.get("examples", {}).keys() - after.get("examples", {}).keys():
                    yield f"{where}: the error code {code} was removed."

    def schema(self, where: str, old: Document, new: Document, *, sent: bool) -> Iterator[str]:
        old, new = resolve(self.old, old), resolve(self.new, new)
        # What is sent must not be narrowed, what is received must not be widened.
        narrow, wide = (new, old) if sent else (old, new)
        how = "narrowed" if sent else "widened"
        yield from (f"{where}: {what} {how}." for what in find_wider_constraints(wide, narrow))
        for name in CHOICES:
            if old.get(name) != new.get(name):
                yield f"{where}: {name} was changed."
        if sent and old.get("default") != new.get("default"):
            yield f"{where}: the default was changed."
        yield from self.members(where, old, new, sent=sent)
        if "items" in old and "items" in new:
            yield from self.schema(f"{where}[]", old["items"], new["items"], sent=sent)

    def members(self, where: str, old: Document, new: Document, *, sent: bool) -> Iterator[str]:
        before, after = set(old.get("required", [])), set(new.get("required", []))
        if sent:
            yield from (f"{where}: {name} is required now." for name in sorted(after - before))
            closed = [schema.get("additionalProperties", True) is False for schema in (old, new)]
            if closed == [False, True]:
                yield f"{where}: other members are rejected now."
        for name, schema in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                yield f"{where}: {name} was removed."
                continue
            if not sent and name in before - after:
                yield f"{where}: {name} may be missing now."
            yield from self.schema(f"{where}.{name}", schema, new["properties"][name], sent=sent)


def resolve(document: Document, node: Document) -> Document:
    """Resolve a reference, and merge the schemas of allOf into one."""
    if "$ref" in node:
        found: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return resolve(document, found)
    merged = {name: value for name, value in node.items() if name != "allOf"}
    for part in node.get("allOf", []):
        part = resolve(document, part)  # noqa: PLW2901  The part itself, not its name.
        required = [*merged.get("required", []), *part.get("required", [])]
        properties = merged.get("properties", {}) | part.get("properties", {})
        merged = part | merged
        merged |= {"required": required} if required else {}
        merged |= {"properties": properties} if properties else {}
    return merged


def find_wider_constraints(wide: Document, narrow: Document) -> Iterator[str]:
    """Yield the constraints by which one schema allows values that the other forbids."""
    if not types(wide) <= types(narrow):
        yield "the type was changed or"
    if beyond_enum(wide, narrow):
        yield "the values of the enum were"
    for bound in (*LOWER, *UPPER):
        if outside(bound, limit(wide, bound), limit(narrow, bound)):
            yield f"{bound} was"
    for name in EXACT:
        if narrow.get(name) not in {wide.get(name), None}:
            yield f"{name} was changed or"


def types(schema: Document) -> set[str]:
    """Return the JSON types of a schema; without one, all. Every integer is a number."""
    named = schema.get("type")
    found = {named} if named else {"string", "number", "integer", "boolean", "array", "object", "null"}
    found |= {"integer"} if "number" in found else set()
    return found | ({"null"} if schema.get("nullable") else set())


def beyond_enum(wide: Document, narrow: Document) -> bool:
    """Return whether one schema allows values that the other's enum omits."""
    if "enum" not in narrow:
        return False
    return "enum" not in wide or not set(wide["enum"]) <= set(narrow["enum"])


def limit(schema: Document, bound: str) -> Any:
    """Return a bound of a schema, which the format int64 may imply."""
    return schema.get(bound, INT64.get(bound) if schema.get("format") == "int64" else None)


def outside(bound: str, wide: float | None, narrow: float | None) -> bool:
    """Return whether one bound allows values that the other forbids."""
    if narrow is None:
        return False
    if wide is None:
        return True
    return wide < narrow if bound in LOWER else wide > narrow
