"""Django's setting LOGGING: what is logged, by whom it is formed, and where it goes.

Whatever reads a setting reads this, so what it needs is named here and loaded when the logs begin.
"""

from typing import Any

FORMS = {"json": "JsonFormatter", "text": "TextFormatter"}
LEVELS: tuple[str, ...] = ("debug", "info", "warning", "error", "critical")


def logging_settings(form: str, level: str) -> dict[str, Any]:
    """Return Django's setting LOGGING, for one of FORMS and one of LEVELS."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": f"petstore.observability.logs.{FORMS[form]}"}},
        # Tracebacks only: that an answer was a 5xx, the request's own line says.
        "filters": {
            "failures": {
                "()": "django.utils.log.CallbackFilter",
                "callback": lambda record: record.exc_info,
            }
        },
        "handlers": {"output": {"()": "petstore.observability.output.OutputHandler", "formatter": "line"}},
        "root": {"handlers": ["output"], "level": level.upper()},
        "loggers": {
            # Every 4xx as a warning would drown the log; the 5xx are logged where they are answered.
            "django.request": {"level": "ERROR", "filters": ["failures"]},
            # Anyone can send any Host, long addresses, and forms of any size: each is answered with 400.
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            "django.security.DisallowedRedirect": {"level": "CRITICAL"},
            "django.security.TooManyFieldsSent": {"level": "CRITICAL"},
            "_granian": {"handlers": [], "propagate": True},  # It comes with a handler of its own.
        },
    }
