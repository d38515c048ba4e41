"""Request IDs (D29)."""

import re
from random import getrandbits

from petstore.observability.redaction import contains_key

VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")


def get_request_id(header: str) -> str:
    """Return the client's X-Request-Id if it is valid and contains no API key, else a new ID."""
    is_valid = VALID_REQUEST_ID.fullmatch(header) and not contains_key(header)
    return header if is_valid else f"{getrandbits(128):032x}"
