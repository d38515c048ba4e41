"""The WSGI application that the production server calls."""

import gc
import os
from io import BytesIO
from wsgiref.types import StartResponse, WSGIEnvironment

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http import HttpResponseBase
from django.utils.http import parse_header_parameters

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
django.setup(set_prefix=False)

from accounts.quota import store  # noqa: E402  Its models need the setup.
from inventory import stock  # noqa: E402

store.start_worker()
stock.start_worker()


class Utf8Request(WSGIRequest):
    """A request in UTF-8, whatever its Content-Type says.

    Django would decode the query by that charset, and fails on those that are no encodings of text.
    """

    def _set_content_type_params(self, meta: WSGIEnvironment) -> None:
        content_type = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        self.content_type, self.content_params = content_type


class Handler(WSGIHandler):
    """Django's handler, for requests in UTF-8 whose bodies may be chunked."""

    request_class = Utf8Request

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> HttpResponseBase:
        """Serve one request.

        Django reads only as much of a body as Content-Length says, so a chunked one would be lost: it is
        read here, up to one byte more than a body may have.
        """
        if "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
            body = environ["wsgi.input"].read(settings.MAX_BODY_BYTES + 1)
            environ["wsgi.input"], environ["CONTENT_LENGTH"] = BytesIO(body), str(len(body))
        return super().__call__(environ, start_response)


# What the program is made of never becomes garbage, so the collector need not look at it again; and a
# request makes few cycles, so it may come less often than its default, made for small programs, has it.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 20, 20)

application = Handler()
