"""Log formatters: a JSON object per line, or text; both redact secrets.

`request_log` formats the lines of requests.
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
        return orjson.dumps(self.get_fields(record)).decode()

    def get_fields(self, record: logging.LogRecord) -> dict[str, str]:
        """Return the redacted fields. JSON's escapes could hide the end of a secret, so redact first."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        if (current_id := request_id.get(None)) is not None:
            fields["request_id"] = current_id
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # Python decodes an invalid byte as a lone surrogate, which UTF-8 can't encode.
        return {name: redact(value).encode(errors="replace").decode() for name, value in fields.items()}


class TextFormatter(JsonFormatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = self.get_fields(record)
        summary = f"{fields.pop('time')} {fields.pop('level'):<8} {fields.pop('event')}"
        exception = fields.pop("exception", None)
        details = "".join(f" {name}={value}" for name, value in fields.items())
        return summary + details + (f"\n{exception}" if exception else "")
