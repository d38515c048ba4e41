#!/usr/bin/env python3
"""The command line of the pet store: `manage.py help` lists every command."""

import io
import os
import sys


def main() -> None:
    """Run one management command; a wrong setting ends it with one sentence, not a traceback."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    if os.environ.get("NO_COLOR") and "--force-color" not in sys.argv:
        os.environ["DJANGO_COLORS"] = "nocolor"  # Django 5.2 doesn't know NO_COLOR (no-color.org).
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None where it is closed.
            stream.reconfigure(errors="backslashreplace")  # Not every encoding has every name's characters.
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        settings.INSTALLED_APPS  # noqa: B018  Reading one setting loads them all.
    except ImproperlyConfigured as error:
        sys.exit(f"petstore: {error}")
    if sys.argv[1:2] == ["serve"]:
        from petstore.management.commands.serve import Command

        Command().run_from_argv(sys.argv)  # It needs no app; its workers load them.
    else:
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
