"""Django's side of the production server: petstore/server/app.py asks it for responses."""

import gc
import os
from importlib import import_module

import django
from django.apps import apps
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

from petstore.backoffice.apps import PetstoreAdminConfig
from petstore.server import shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
PetstoreAdminConfig.at_start = False
django.setup(set_prefix=False)
import_module(settings.API_URLCONF)  # Else the first request would wait for it.

shutdown.block_sigterm()  # Before threads begin, which could hear it as well.
for app in apps.get_app_configs():
    if hasattr(app, "start_worker"):
        app.start_worker()

# What is loaded by now stays: the collector need not look through it again and again, which takes it a
# twentieth of a second each time.
gc.freeze()
gc.enable()

application = WSGIHandler()
