"""The image's health check. It exits with status 0 if /healthz responds with 200 in time, else with 1.

    python -m petstore.observability.healthcheck

It runs every few seconds, so it does not import Django.
"""

import os
import sys
from http.client import HTTPConnection, HTTPException

TIMEOUT_SECONDS = 2


def is_alive(port: int, host: str = "127.0.0.1", path: str = "/healthz") -> bool:
    connection = HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(not is_alive(int(os.environ.get("PORT") or 8000)))
