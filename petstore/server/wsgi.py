"""Sets up Django, loads all pages, and defines the WSGI application that petstore/server/app.py calls.

The supervisor does this before it forks the workers, so nothing here may start a thread, open a connection
or create other state that processes can't share. That belongs in the method `start_worker` of an app.
"""

import os
from importlib import import_module

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
django.setup(set_prefix=False)
# Otherwise the first request for a page would load all pages, and that for /docs build the document.
import_module(settings.ROOT_URLCONF)
import_module("petstore.site.reference").get_operations()

application = WSGIHandler()
