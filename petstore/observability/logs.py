"""The form of log lines: one JSON object each, or text for people; never a secret.

The process that keeps the workers forms its few lines here, too. It is meant to stay small, so nothing here
imports Django, or the metrics library. The line of a request is made in `requests`.
"""

import logging
from contextvars import ContextVar
from datetime import UTC, datetime

import orjson

from petstore.observability.redaction import redact

# The id of the request that is being answered, for the lines that loggers write meanwhile.
request_id: ContextVar[str] = ContextVar("request_id")


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return orjson.dumps(self.fields(record)).decode()

    def fields(self, record: logging.LogRecord) -> dict[str, str]:
        """Return what the line has, each without secrets: JSON's escapes could hide the end of one."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        if (current := request_id.get(None)) is not None:
            found["request_id"] = current
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)  # Without the values of variables.
        # A stray byte in a message, which Python keeps as a lone surrogate, is no text for JSON.
        return {name: redact(value).encode(errors="replace").decode() for name, value in found.items()}


class TextFormatter(JsonFormatter):
    def format(self, record: logging.LogRecord) -> str:
        told = self.fields(record)
        line = f"{told.pop('time')} {told.pop('level'):<8} {told.pop('event')}"
        exception = told.pop("exception", None)
        rest = "".join(f" {name}={value}" for name, value in told.items())
        return line + rest + (f"\n{exception}" if exception else "")


# For granian, which adds its own handlers and loggers.
LOG_CONFIG = {"formatters": {name: {"()": JsonFormatter} for name in ("generic", "access")}}
