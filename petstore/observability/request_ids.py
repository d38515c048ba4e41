"""Request ids (D29)."""

import re
from random import getrandbits

WELL_FORMED = re.compile(r"[A-Za-z0-9._~-]{1,128}")


def request_id(sent: str) -> str:
    """Return the client's id if it is well-formed, else a new one."""
    return sent if WELL_FORMED.fullmatch(sent) else f"{getrandbits(128):032x}"
