"""The few log lines of the process that keeps the workers, in their form.

That process is meant to stay small, so nothing here imports Django, or structlog, which takes 7 MB.
"""

import logging
from datetime import UTC, datetime

import orjson

from petstore.observability.redaction import redact


class JsonFormatter(logging.Formatter):
    """Forms the server's own messages as the workers form theirs (see logs.py)."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "event": redact(record.getMessage()),
            "logger": record.name,
        }
        if record.exc_info:
            fields["exception"] = redact(self.formatException(record.exc_info))
        return orjson.dumps(fields, option=orjson.OPT_UTC_Z).decode()


# For granian, which adds its own handlers and loggers.
LOG_CONFIG = {"formatters": {name: {"()": JsonFormatter} for name in ("generic", "access")}}
