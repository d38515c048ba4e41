"""The schemas of the serializers' own fields."""

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension

from inventory.models import NAME_LENGTH

# What str.strip() takes away. Not `\s`: Python, ECMAScript and Rust each mean something else by it.
BLANKS = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


class Name(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "inventory.fields.NameField"

    def map_serializer_field(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        return {
            "type": "string",
            "minLength": 1,
            "maxLength": NAME_LENGTH,
            # At least one character that is no blank, and no NUL.
            "pattern": rf"^[^\u0000]*[^\u0000{BLANKS}][^\u0000]*$",
        }


class Int64(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "inventory.fields.Int64Field"
    match_subclasses = True

    def map_serializer_field(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        return {"type": "integer", "format": "int64"}
