"""Strict JSON: DRF's parser and content negotiation."""

import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.request import Empty, Request

from petstore.api.errors import ApiError, ErrorCode


def malformed(reason: str) -> ApiError:
    return ApiError(ErrorCode.MALFORMED_JSON, f"The body is not valid JSON: {reason}.")


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Duplicate names are rejected (RFC 8259 section 4 leaves them open)."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise malformed("an object has two members of one name")
    return members


def reject_constant(name: str) -> None:
    raise malformed(f"{name} is not JSON")


def integer(digits: str) -> int | Decimal:
    """Parse an integer of any length; `int` rejects very long ones."""
    return int(digits) if len(digits) <= 20 else Decimal(digits)


def number(text: str) -> Decimal:
    """Parse a number with a point or exponent exactly. What no Decimal can hold becomes infinite."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("Infinity")


def strings(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            stack.extend(value)
        elif isinstance(value, dict):
            stack.extend(value.keys())
            stack.extend(value.values())


def check_strings(value: Any) -> None:
    """Reject what JSON can escape but no database can store: NUL and lone surrogates."""
    for string in strings(value):
        if "\0" in string:
            raise malformed("a string has a NUL character")
        if any("\ud800" <= character <= "\udfff" for character in string):
            raise malformed("a string has a lone surrogate")


DECODER = json.JSONDecoder(
    object_pairs_hook=unique_members, parse_constant=reject_constant, parse_float=number, parse_int=integer
)


def parse_json(body: bytes) -> Any:
    """Parse a JSON text. Numbers with a point or exponent become exact Decimals.

    Raises ApiError `malformed_json` for what RFC 8259 forbids, and for what it leaves open and parsers read
    differently: duplicate member names, NUL, lone surrogates.
    """
    try:
        text = body.decode("utf-8")
        value = DECODER.decode(text)
    except UnicodeDecodeError:
        raise malformed("it is not UTF-8") from None
    except RecursionError:
        raise malformed("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise malformed(f"see line {error.lineno}, column {error.colno}") from None
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
        """Raise ApiError 400, 413 or 415."""
        request = (parser_context or {})["request"]
        if (request.content_params or {}).get("charset", "utf-8").lower() not in {"utf-8", "utf8"}:
            raise UnsupportedMediaType(request.META["CONTENT_TYPE"])
        body = stream.read(settings.MAX_BODY_BYTES + 1)
        if len(body) > settings.MAX_BODY_BYTES:
            raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE)
        return parse_json(body)


class JsonRequest(Request):
    """A DRF request whose body is one JSON value. DRF's own would also look for forms and files."""

    _full_data: Any
    negotiator: BaseContentNegotiation

    @property
    def data(self) -> Any:
        """The body's value; {} if there is none. The first access raises what the parser raises."""
        if self._full_data is Empty:
            self._full_data = {}
            if self.stream is not None:
                parser = self.negotiator.select_parser(self, self.parsers or ())
                if parser is None:
                    raise UnsupportedMediaType(self.content_type or "")
                self._full_data = parser.parse(self.stream, self.content_type, self.parser_context)
        return self._full_data


class AlwaysJSON(BaseContentNegotiation):
    """Selects the parser. Accept is ignored: responses are always `application/json` (D2)."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        sent = (request.content_type or "").partition(";")[0].strip().lower()
        parser = next(iter(parsers))
        return parser if sent == parser.media_type else None
