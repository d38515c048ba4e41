"""Log formatters: a JSON object per line, or text; both redact secrets.

The supervisor uses them, too, so nothing here imports Django or the metrics library. Request lines are
written by `instrumentation`.
"""

import logging
from contextvars import ContextVar
from datetime import UTC, datetime

import orjson

from petstore.observability.redaction import redact

# The id of the current request, for lines logged while it is served.
request_id: ContextVar[str] = ContextVar("request_id")


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return orjson.dumps(self.fields(record)).decode()

    def fields(self, record: logging.LogRecord) -> dict[str, str]:
        """Redact each value before it is encoded: JSON's escapes could hide the end of a secret."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        if (current := request_id.get(None)) is not None:
            found["request_id"] = current
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        # An undecodable byte is a lone surrogate in Python, which JSON can't represent.
        return {name: redact(value).encode(errors="replace").decode() for name, value in found.items()}


class TextFormatter(JsonFormatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        line = f"{fields.pop('time')} {fields.pop('level'):<8} {fields.pop('event')}"
        exception = fields.pop("exception", None)
        rest = "".join(f" {name}={value}" for name, value in fields.items())
        return line + rest + (f"\n{exception}" if exception else "")


# For granian, which adds its own handlers and loggers.
LOG_CONFIG = {"formatters": {name: {"()": JsonFormatter} for name in ("generic", "access")}}
