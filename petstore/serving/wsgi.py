"""Django's side of the production server: petstore/serving/rsgi.py asks it for responses."""

import gc
import os
from importlib import import_module

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

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
gc.enable()

application = WSGIHandler()
