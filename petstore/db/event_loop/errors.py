"""Errors of the event loop's connections."""

from django.db import OperationalError

from petstore.db.monitor import DatabaseUnavailableError, is_unavailable


class ConnectionFailedError(Exception):
    """The server can't be reached, did not respond in time, or became a standby."""


class ConnectionClosedError(ConnectionFailedError):
    """The connection closed before the request was sent or before its reply arrived."""


class NotExecutedError(ConnectionFailedError):
    """The statement was not executed, so it may be retried."""


def to_django_error(alias: str, error: ConnectionFailedError) -> OperationalError:
    """Convert to the exception that Django raises for a failed connection."""
    if is_unavailable(alias):
        return DatabaseUnavailableError(str(error))
    return OperationalError(str(error))
