"""Django's side of the production server: petstore/serving/rsgi.py calls it, with bodies that are whole."""

import os
from wsgiref.types import WSGIEnvironment

import django
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.utils.http import parse_header_parameters

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
django.setup(set_prefix=False)

from accounts.authentication import read_key  # noqa: E402  Its models need the setup.
from accounts.quota import anonymous  # noqa: E402
from accounts.quota import worker as quota  # noqa: E402
from accounts.quota.headers import write_headers  # noqa: E402
from inventory import stock  # noqa: E402
from petstore.db import monitor  # noqa: E402
from petstore.observability import worker  # noqa: E402

worker.start_worker()
monitor.start_worker()
quota.start_worker()
stock.start_worker()


def check_key(header: str) -> None:
    """Refuse an Authorization header that holds no key by its form. Raises ApiError 401."""
    read_key(header)


def uncounted() -> list[tuple[str, str]]:
    """Return the quota headers of an answer that was given before anybody counted."""
    headers: dict[str, str] = {}
    write_headers(headers, anonymous.untouched())
    return [(name.lower(), value) for name, value in headers.items()]


class Utf8Request(WSGIRequest):
    """A request in UTF-8, whatever its Content-Type says.

    Django would decode the query by that charset, and fails on those that are no encodings of text.
    """

    def _set_content_type_params(self, meta: WSGIEnvironment) -> None:
        try:
            content_type = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except (ValueError, TypeError, LookupError):  # Parameters as in RFC 2231, and malformed.
            content_type = ("", {})
            meta["CONTENT_TYPE"] = ""  # DRF parses it again.
        self.content_type, self.content_params = content_type


class Handler(WSGIHandler):
    """Django's handler, for requests in UTF-8."""

    request_class = Utf8Request


application = Handler()
