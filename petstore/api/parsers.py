"""Strict JSON in, and nothing else. Nobody chooses by Accept: the answer is always JSON (D2)."""

import json
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from petstore.api.errors import ApiError, ErrorCode


def malformed(reason: str) -> ApiError:
    """Return the Error for a body that is not acceptable JSON."""
    return ApiError(ErrorCode.MALFORMED_JSON, f"The body is not valid JSON: {reason}.")


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; a name that comes twice is refused (RFC 8259 section 4 leaves it open)."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise malformed("an object has two members of one name")
    return members


def no_constant(name: str) -> None:
    """Refuse NaN and the infinities, which Python's parser would take."""
    raise malformed(f"{name} is not JSON")


def integer(digits: str) -> int | Decimal:
    """Read an integer of any length; Python itself refuses to convert very long ones."""
    return int(digits) if len(digits) <= 20 else Decimal(digits)


def number(text: str) -> Decimal:
    """Read a number with a point or exponent, exactly. One that no Decimal can hold is infinite."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("Infinity")


def strings(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value, member names too."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.keys())
            waiting.extend(value.values())


def check_strings(value: Any) -> None:
    """Refuse what JSON can escape but no database can keep: NUL and lone surrogates."""
    for string in strings(value):
        if "\0" in string:
            raise malformed("a string has a NUL character")
        if any("\ud800" <= character <= "\udfff" for character in string):
            raise malformed("a string has a lone surrogate")


DECODER = json.JSONDecoder(
    object_pairs_hook=unique_members, parse_constant=no_constant, parse_float=number, parse_int=integer
)


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text. Numbers with a point or exponent are exact Decimals.

    Raises ApiError `malformed_json` for whatever RFC 8259 doesn't allow, and for what it leaves open and
    parsers read differently: doubled member names, NUL, lone surrogates.
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
    if "\\u" in text:  # NUL and lone surrogates can only come as escapes.
        check_strings(value)
    return value


def json_body(request: HttpRequest) -> Any:
    """Return the value of a request's body, {} if there is none. Raises ApiError 400, 413 or 415.

    It is read once, and stays with the request.
    """
    members = vars(request)
    if "json" not in members:
        members["json"] = read_body(request)
    return members["json"]


def read_body(request: HttpRequest) -> Any:
    """Read `application/json` in UTF-8, up to 64 KiB."""
    if request.META.get("CONTENT_LENGTH") in {None, "", "0"}:
        return {}
    kind = request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if kind != "application/json" or charset not in {"utf-8", "utf8"}:
        raise ApiError(ErrorCode.UNSUPPORTED_MEDIA_TYPE)
    body = request.read(settings.MAX_BODY_BYTES + 1)
    if len(body) > settings.MAX_BODY_BYTES:
        raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE)
    return parse_json(body)
