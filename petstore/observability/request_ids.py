"""Request IDs (D29)."""

import re
from random import getrandbits

VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")


def get_request_id(header: str) -> str:
    """Return the client's X-Request-Id if it is valid, else a new ID."""
    return header if VALID_REQUEST_ID.fullmatch(header) else f"{getrandbits(128):032x}"
