"""Sets up Django in a worker, and defines the WSGI application that petstore/server/app.py calls."""

import gc
import os
from importlib import import_module

import django
from django.apps import apps
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

from petstore.server import shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
django.setup(set_prefix=False)
# Otherwise the first request for a page would load all pages, and that for /docs build the document.
import_module(settings.ROOT_URLCONF)
import_module("petstore.site.reference").get_operations()

shutdown.block_sigterm()  # Threads inherit the mask.
for app in apps.get_app_configs():
    if hasattr(app, "start_worker"):
        app.start_worker()
application = WSGIHandler()

# Exempt all objects that exist now from garbage collection.
gc.freeze()
gc.enable()
