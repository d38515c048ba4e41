"""Set up a new installation."""

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

from petstore.api.link_header import get_page_url
from petstore.management.base import JsonCommand

ACCOUNT = "Demo"
STAFF = "admin"
TEXT = """
API         {api}   (documentation: {docs})
Back office {admin}   user {user}"""
NEW_KEY = """
API key     {key}   (shown only once)
            The home page shows another one, which can only read pets.

Try it:

  curl -H 'Authorization: Bearer {key}' '{api}/pets?limit=3'
"""
KNOWN_KEY = f"""
Keys are shown only once. To issue another, run \
.venv/bin/python manage.py issue_key --account {ACCOUNT} --plan business
"""
HOME_PAGE_ACCOUNT = "Home page"  # Owns the public demo key.


def run_json(*command: str) -> Any:
    out = StringIO()
    call_command(*command, "--json", stdout=out)
    return json.loads(out.getvalue())


class Command(JsonCommand):
    help = "Migrate, load demo data, create a staff login and a key, and show how to make the first call."
    examples = """
        manage.py quickstart
        manage.py quickstart --demo-key-to .env
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--demo-key-to", metavar="FILE",
            help="Also write a key with the scope pets:read to FILE as DEMO_KEY, for the home page.",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        if options["demo_key_to"]:
            # Fail before creating a password, which is shown only once.
            write_demo_key(options["demo_key_to"], settings.DEMO_KEY)
        call_command("migrate", verbosity=0)
        password, key = create_staff_login(), create_first_key()
        call_command("seed_demo", if_empty=True, history_days=90, stdout=StringIO())
        if options["demo_key_to"]:
            ensure_demo_key(options["demo_key_to"])
        pages = {"api": settings.BASE_URL, "docs": get_page_url("docs"), "admin": get_page_url("admin/")}
        data = pages | {"user": STAFF, "password": password, "key": key}
        unchanged = ", password unchanged (to reset it: manage.py changepassword)"
        login = f"   password {password}" if password else unchanged
        usage = NEW_KEY if key else KNOWN_KEY
        self.write_result(data, TEXT.format(**data) + login + usage.format(**data))


def create_staff_login() -> str | None:
    """Create a staff login and return its password, or None if there is one already."""
    users = get_user_model().objects
    if users.filter(Q(is_staff=True) | Q(username=STAFF)).exists():
        return None
    password = secrets.token_urlsafe(12)
    try:
        users.create_superuser(STAFF, password=password)
    except IntegrityError:  # A concurrent run created the login and shows its password.
        return None
    return password


def create_first_key() -> str | None:
    """Create the first key and return its text, or None if there is one already."""
    if run_json("list_keys"):
        return None
    options = ("--plan", "business", "--name", "First key")
    return str(run_json("issue_key", "--account", ACCOUNT, *options)["key"])


def ensure_demo_key(file: str) -> None:
    """Create the key of the home page and write it to the file, unless DEMO_KEY is an active key."""
    keys = run_json("list_keys")
    if not any(f"_{key['id']}_" in settings.DEMO_KEY and key["state"] == "active" for key in keys):
        options = ("--name", "Public demo key", "--scopes", "pets:read")
        write_demo_key(file, run_json("issue_key", "--account", HOME_PAGE_ACCOUNT, *options)["key"])


def write_demo_key(file: str, key: str) -> None:
    try:
        dotenv.set_key(file, "DEMO_KEY", key, quote_mode="never")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Can't write DEMO_KEY to {file}: {error}. Choose another file.") from None
