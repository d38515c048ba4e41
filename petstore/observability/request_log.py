"""The request log: one line per request, which names its account and key (ACCESS_LOG, LOG_FORMAT)."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
from django.conf import settings

from petstore.observability.log_writer import log_writer
from petstore.observability.redaction import redact

JSON_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
KEY_PREFIX = b"psk_"

READINESS_ROUTE = "/readyz"

# A text line starts with these fields, without their names, and omits the event.
SUMMARY = "{level:<8} {method} {route} {status}"
SUMMARY_FIELDS = {"level", "event", "method", "route", "status"}


class RequestLog:
    def __init__(self) -> None:
        self._write_line = LINE_WRITERS[settings.LOG_FORMAT] if settings.ACCESS_LOG else None

    def write(self, context: Any, method: str, route: str, status: int, seconds: float) -> None:
        """Write the line of a request, given its RequestContext (petstore/api/context.py)."""
        if self._write_line is None:
            return
        caller = context.caller
        self._write_line(
            {
                # Readiness fails while draining, and in outages, which have log lines of their own.
                "level": "info" if status < 500 or route == READINESS_ROUTE else "error",
                "event": "request",
                "request_id": context.id,
                "account": caller.account_id if caller else None,
                "key": caller.public_id if caller else None,
                "method": method,
                "route": route,
                "status": status,
                "ms": round(seconds * 1000, 3),
                "client": context.client,
            }
        )


def write_json_line(fields: dict[str, Any]) -> None:
    line = orjson.dumps({"time": datetime.now(UTC), **fields}, option=JSON_OPTIONS)
    # The request ID is the only text that the client controls. It can contain a key, but no other secret.
    log_writer.write(redact(line.decode()).encode() if KEY_PREFIX in line else line)


def write_text_line(fields: dict[str, Any]) -> None:
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    details = "".join(
        f" {name}={value}"
        for name, value in fields.items()
        if name not in SUMMARY_FIELDS and value is not None
    )
    log_writer.write(redact(f"{time} {SUMMARY.format_map(fields)}{details}\n").encode())


LINE_WRITERS: dict[str, Callable[[dict[str, Any]], None]] = {
    "json": write_json_line,
    "text": write_text_line,
}
