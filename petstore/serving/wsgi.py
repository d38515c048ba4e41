"""Django's side of the production server: petstore/serving/rsgi.py calls it, with bodies that are whole."""

import gc
import os
from importlib import import_module
from wsgiref.types import WSGIEnvironment

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.utils.http import parse_header_parameters

from petstore.backoffice.apps import PetstoreAdminConfig
from petstore.serving import termination
from petstore.serving.signals import worker_started

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
PetstoreAdminConfig.at_start = False
django.setup(set_prefix=False)
import_module(settings.API_URLCONF)  # Else the first request would wait for it.

termination.hold_back()  # Before threads begin, which could hear it as well.
worker_started.send(sender=None)

# What is loaded by now stays: the collector need not look through it again and again, which takes it a
# twentieth of a second each time.
gc.freeze()


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
