"""Settings with which the application can't be loaded."""

from petstore.settings import *  # noqa: F403

ROOT_URLCONF = "tests.missing"
