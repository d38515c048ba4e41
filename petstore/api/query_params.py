"""Query parameters, read strictly: each at most once, and only as documented (D6)."""

import re
from collections.abc import Mapping, Sequence

from rest_framework.request import Request

from petstore.api.errors import ApiError, ErrorCode

Filters = Mapping[str, Sequence[str]]  # The parameters that filter a list, with the choices of each.


def invalid_parameter(message: str) -> ApiError:
    """Return the Error for a query parameter."""
    return ApiError(ErrorCode.INVALID_PARAMETER, message)


def single(request: Request, name: str) -> str | None:
    """Return the parameter's value, or None if it was not sent."""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise invalid_parameter(f"`{name}` was sent {len(values)} times. Send it once.")
    return values[0] if values else None


def bounded(request: Request, name: str, default: int, minimum: int, maximum: int) -> int:
    """Return a whole number within the bounds, both included."""
    value = single(request, name)
    if value is None:
        return default
    if not re.fullmatch(r"[1-9][0-9]{0,9}", value) or not minimum <= int(value) <= maximum:
        raise invalid_parameter(f"`{name}` must be a whole number from {minimum} to {maximum}.")
    return int(value)


def choice(request: Request, name: str, choices: Sequence[str]) -> str | None:
    """Return one of the choices, or None if the parameter was not sent."""
    value = single(request, name)
    if value is not None and value not in choices:
        raise invalid_parameter(f"`{name}` must be one of {', '.join(choices)}.")
    return value


def chosen(request: Request, filters: Filters) -> dict[str, str]:
    """Return the choice of each filter that was sent, in the order in which the list declares them."""
    found = {name: choice(request, name, choices) for name, choices in filters.items()}
    return {name: value for name, value in found.items() if value is not None}
