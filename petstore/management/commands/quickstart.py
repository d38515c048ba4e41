"""Set up a first start."""

import json
import secrets
from argparse import ArgumentParser
from io import StringIO
from typing import Any

import dotenv
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import IntegrityError
from django.db.models import Q

from petstore.api.link_header import page_url
from petstore.management.base import JsonCommand

ACCOUNT = "Demo"
STAFF = "admin"
TEXT = """
API         {api}   (documentation: {docs})
Back office {admin}   user {user}"""
HOME_PAGE = "Home page"  # The account of the public demo key.


def run(*command: str) -> str:
    out = StringIO()
    call_command(*command, stdout=out)
    return out.getvalue()


class Command(JsonCommand):
    help = "Migrate, load demo data, create a staff login and a key, and show how to make the first call."
    examples = """
        manage.py quickstart
        manage.py quickstart --json
        manage.py quickstart --demo-key-to .env
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        text = "Also write a key with the scope pets:read to FILE as DEMO_KEY, for the home page."
        parser.add_argument("--demo-key-to", metavar="FILE", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["demo_key_to"]:
            set_demo_key(options["demo_key_to"], settings.DEMO_KEY)  # Fail before a password is created.
        run("migrate", "--verbosity", "0")
        run("seed_demo", "--pets", "300", "--if-empty")
        password, key = staff_login(), first_key()
        if options["demo_key_to"]:
            write_demo_key(options["demo_key_to"])
        pages = {"api": settings.BASE_URL, "docs": page_url("docs"), "admin": page_url("admin/")}
        data = pages | {"user": STAFF, "password": password, "key": key}
        self.write_result(options, data, TEXT.format(**data) + about_login(password) + about_key(key))


def staff_login() -> str | None:
    """Create the staff login and return its password, or None if there is one."""
    users = get_user_model().objects
    if users.filter(Q(is_staff=True) | Q(username=STAFF)).exists():
        return None
    password = secrets.token_urlsafe(12)
    try:
        users.create_superuser(STAFF, password=password)
    except IntegrityError:  # A concurrent run was first, and shows its password.
        return None
    return password


def first_key() -> str | None:
    """Create the first key and return it, or None if there is one."""
    if json.loads(run("list_keys", "--json")):
        return None
    return issue("--account", ACCOUNT, "--plan", "business", "--name", "First key")


def issue(*options: str) -> str:
    return str(json.loads(run("issue_key", *options, "--json"))["key"])


def write_demo_key(file: str) -> None:
    """Create the home page's key, unless it has a working one."""
    keys = json.loads(run("list_keys", "--json"))
    if not any(f"_{key['id']}_" in settings.DEMO_KEY and key["state"] == "active" for key in keys):
        key = issue("--account", HOME_PAGE, "--name", "Public demo key", "--scopes", "pets:read")
        set_demo_key(file, key)


def set_demo_key(file: str, key: str) -> None:
    try:
        dotenv.set_key(file, "DEMO_KEY", key, quote_mode="never")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Can't write DEMO_KEY to {file}: {error}. Choose another file.") from None


def about_login(password: str | None) -> str:
    if password is None:
        return ", password unchanged (to reset it: manage.py changepassword)\n"
    return f"   password {password}\n"


def about_key(key: str | None) -> str:
    if key is None:
        command = f".venv/bin/python manage.py issue_key --account {ACCOUNT} --plan business"
        return f"Keys are shown only once. For another: {command}\n"
    return (
        f"API key     {key}   (shown only now)\n\nTry it:\n\n"
        f"  curl -H 'Authorization: Bearer {key}' '{settings.BASE_URL}/pets?limit=3'\n"
    )
