"""What views answer with."""

from collections.abc import Mapping
from typing import Any

import orjson
from django.http import HttpResponse


class Response(HttpResponse):
    """An answer in UTF-8 JSON, or without a body.

    DRF's own is rendered later, by way of a template, a renderer and its context, which took a tenth of a
    request.
    """

    def __init__(
        self, data: Any = None, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        if data is None:
            super().__init__(status=status, headers=headers)
            del self["Content-Type"]
        else:
            body = orjson.dumps(data, option=orjson.OPT_UTC_Z)
            super().__init__(body, "application/json", status, headers=headers)
