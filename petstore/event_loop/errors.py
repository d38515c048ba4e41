"""Errors of the event loop's connections."""


class ConnectionFailedError(Exception):
    """The server can't be reached, did not respond in time, or became a standby."""


class ConnectionClosedError(ConnectionFailedError):
    """The connection closed before the request was sent or before its reply arrived."""
