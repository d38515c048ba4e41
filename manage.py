#!/usr/bin/env python3
"""The command line of the pet store. `manage.py help` lists the commands."""

import io
import os
import sys


def main() -> None:
    """Run a management command. Invalid settings and failures of the database cause no traceback."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    if os.environ.get("NO_COLOR") and "--force-color" not in sys.argv:
        os.environ["DJANGO_COLORS"] = "nocolor"  # Django 5.2 ignores NO_COLOR (no-color.org).
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # A closed stream is None.
            # Names may contain characters that the terminal's encoding lacks.
            stream.reconfigure(errors="backslashreplace")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import Error

    try:
        settings.INSTALLED_APPS  # noqa: B018  Reading a setting loads all of them.
    except ImproperlyConfigured as error:
        sys.exit(f"petstore: {error}")
    if sys.argv[1:2] == ["serve"]:
        from petstore.management.commands.serve import Command

        Command().run_from_argv(sys.argv)  # Without django.setup(): only its workers load the apps.
        return
    try:
        execute_from_command_line(sys.argv)
    except Error as error:
        if "--traceback" in sys.argv:
            raise
        from petstore.management.base import describe_database_failure

        sys.exit(f"petstore: {describe_database_failure(error)}")


if __name__ == "__main__":
    main()
