"""Query parameters, read strictly: each at most once, and only as documented (D6)."""

import re

from django.http import QueryDict

from petstore.api.errors import ApiError, ErrorCode


def invalid_parameter(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_PARAMETER, message)


def single(query: QueryDict, name: str) -> str | None:
    """Return the parameter's value, or None if it was not sent."""
    values = query.getlist(name)
    if len(values) > 1:
        raise invalid_parameter(f"`{name}` was sent {len(values)} times. Send it once.")
    return values[0] if values else None


def bounded(query: QueryDict, name: str, default: int, minimum: int, maximum: int) -> int:
    """Return a whole number within the bounds, both included."""
    value = single(query, name)
    if value is None:
        return default
    if not re.fullmatch(r"[1-9][0-9]{0,9}", value) or not minimum <= int(value) <= maximum:
        raise invalid_parameter(f"`{name}` must be a whole number from {minimum} to {maximum}.")
    return int(value)
