"""Asks the service of this machine whether it lives: what the image's health check runs.

    python -m petstore.observability.healthcheck

Exit status 0 if /healthz answers 200 within two seconds. It runs every few seconds, so it imports nothing
of Django.
"""

import os
import sys
from http.client import HTTPConnection, HTTPException

SECONDS = 2


def is_alive(port: int, host: str = "127.0.0.1") -> bool:
    """Tell whether the service on a port of this machine answers."""
    connection = HTTPConnection(host, port, timeout=SECONDS)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(not is_alive(int(os.environ.get("PORT") or 8000)))
