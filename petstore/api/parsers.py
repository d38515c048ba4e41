"""Strict JSON: the parser and content negotiation for DRF."""

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from petstore.api.errors import ApiError, ErrorCode

MAX_INT_LENGTH = 20  # Characters; enough for every int64. `int` rejects very long texts.


def malformed_json(reason: str) -> ApiError:
    return ApiError(ErrorCode.MALFORMED_JSON, f"The body is not valid JSON: {reason}.")


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; reject duplicate names, which RFC 8259 section 4 leaves open."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise malformed_json("an object has two fields with the same name")
    return fields


def reject_constant(name: str) -> None:
    raise malformed_json(f"{name} is not JSON")


def parse_number(text: str) -> Decimal:
    """Parse a number with a point or exponent exactly, or as infinity if Decimal can't represent it."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("Infinity")


def check_strings(value: Any) -> None:
    """Reject NUL and lone surrogates, which JSON can escape but PostgreSQL can't store."""
    # Iterative, because a body may be nested too deeply for recursion.
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack.extend(value)
        elif isinstance(value, dict):
            stack += [*value.keys(), *value.values()]
        elif isinstance(value, str) and "\0" in value:
            raise malformed_json("a string has a NUL character")
        elif isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
            raise malformed_json("a string has a lone surrogate")


DECODER = json.JSONDecoder(
    object_pairs_hook=build_object,
    parse_constant=reject_constant,
    parse_float=parse_number,
    parse_int=lambda text: int(text) if len(text) <= MAX_INT_LENGTH else Decimal(text),
)


def parse_json(body: bytes) -> Any:
    """Parse a JSON text. Numbers become ints, or Decimals if they have a point, an exponent or many digits.

    Raises ApiError `malformed_json` for invalid JSON, for deep nesting, and for what parsers interpret
    differently: duplicate field names, NUL, lone surrogates.
    """
    try:
        text = body.decode("utf-8")
        value = DECODER.decode(text)
    except UnicodeDecodeError:
        raise malformed_json("it is not UTF-8") from None
    except RecursionError:
        raise malformed_json("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise malformed_json(f"see line {error.lineno}, column {error.colno}") from None
    if "\\u" in text:  # NUL and lone surrogates can only occur as escapes.
        check_strings(value)
    return value


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Raise ApiError, or UnsupportedMediaType for a charset other than UTF-8."""
        request = (parser_context or {})["request"]
        if (request.content_params or {}).get("charset", "utf-8").lower() not in {"utf-8", "utf8"}:
            raise UnsupportedMediaType(request.META["CONTENT_TYPE"])
        body = stream.read(settings.MAX_BODY_BYTES + 1)
        if len(body) > settings.MAX_BODY_BYTES:
            raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE)
        return parse_json(body)


class JSONContentNegotiation(BaseContentNegotiation):
    """Selects the parser by Content-Type. Accept is ignored: responses are always JSON (D2)."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        media_type = (request.content_type or "").partition(";")[0].strip().lower()
        parser = next(iter(parsers))
        return parser if media_type == parser.media_type else None
