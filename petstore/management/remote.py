"""What commands have in common that ask a deployment over HTTP."""

import os
from argparse import ArgumentParser

from django.core.management.base import CommandError

from petstore.environment import is_api_url

WRONG_OPTIONS = 2


def add_key(parser: ArgumentParser, what: str) -> None:
    text = f"{what} Better in PETSTORE_KEY: a shell remembers options."
    parser.add_argument("--key", help=text)


def address(url: str) -> str:
    """Return the API's address. Raises CommandError for what is none."""
    if not is_api_url(url.rstrip("/")):
        text = f"{url!r} is not the address of an API, such as https://api.example.com/v1."
        raise CommandError(text, returncode=WRONG_OPTIONS)
    return url.rstrip("/")


def api_key(option: str | None) -> str:
    """Return the key from the option or from PETSTORE_KEY. Raises CommandError without one."""
    key = (option or os.environ.get("PETSTORE_KEY", "")).strip()
    if not key or not (key.isascii() and key.isprintable()):
        raise CommandError("Name a key with --key, or in PETSTORE_KEY.", returncode=WRONG_OPTIONS)
    return key
