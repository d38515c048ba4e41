"""The one place that writes quota headers (D23, D28)."""

from typing import Protocol

from accounts.limits import SECOND, Verdict


class TakesHeaders(Protocol):
    """A response, or a dictionary of headers."""

    def __setitem__(self, name: str, value: str, /) -> None: ...


def write_headers(response: TakesHeaders, verdict: Verdict) -> None:
    """Say what is left: the contract's three headers, and the two of the IETF draft.

    `RateLimit-Policy: "minute";q=60;w=60` gives quota and window in seconds, `RateLimit:
    "minute";r=59;t=60` what remains and the seconds until it resets
    (draft-ietf-httpapi-ratelimit-headers, sections 3 and 4).
    """
    shown = verdict.shown
    response["X-RateLimit-Limit"] = str(shown.limit)
    response["X-RateLimit-Remaining"] = str(shown.remaining)
    response["X-RateLimit-Reset"] = str(shown.reset)
    response["RateLimit-Policy"] = ", ".join(
        f'"{window.name}";q={window.limit};w={window.length // SECOND}' for window in verdict.windows
    )
    response["RateLimit"] = ", ".join(
        f'"{window.name}";r={window.remaining};t={verdict.seconds_left(window)}'
        for window in verdict.windows
    )
