"""The service's settings, with a directory of static files for tests."""

import os

from petstore.settings import *  # noqa: F403

STATICFILES_DIRS = [os.environ["LARGE_FILE_FOLDER"]]
