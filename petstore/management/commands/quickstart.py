"""Prepare a first start."""

import json
import secrets
from io import StringIO
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db.models import Q

from petstore.links import page_url

ACCOUNT = "Demo"
STAFF = "admin"


def run(*command: str) -> str:
    """Run another command and return what it prints."""
    out = StringIO()
    call_command(*command, stdout=out)
    return out.getvalue()


class Command(BaseCommand):
    help = "Migrate, load demo data, make a staff login and a key, and say how to make the first call."

    def handle(self, *args: Any, **options: Any) -> None:
        run("migrate", "--verbosity", "0")
        run("seed_demo", "--pets", "300", "--if-empty")
        self.stdout.write(f"\nAPI         {settings.BASE_URL}   (documentation: {page_url('docs')})")
        self.staff_login()
        self.first_call()

    def staff_login(self) -> None:
        """Make the staff login once; its password is printed now and never again."""
        users = get_user_model().objects
        line = f"Back office {page_url('admin/')}   user {STAFF}"
        if users.filter(Q(is_staff=True) | Q(username=STAFF)).exists():
            self.stdout.write(f"{line}, password as before (to change it: manage.py changepassword)")
            return
        password = secrets.token_urlsafe(12)
        users.create_superuser(STAFF, password=password)
        self.stdout.write(f"{line}   password {password}")

    def first_call(self) -> None:
        """Make the first key once, and print the line that uses it."""
        if json.loads(run("list_keys", "--json")):
            self.stdout.write(
                "Keys are shown once. For another: "
                f".venv/bin/python manage.py issue_key --account {ACCOUNT} --plan business\n"
            )
            return
        made = json.loads(
            run("issue_key", "--account", ACCOUNT, "--plan", "business", "--name", "First key", "--json")
        )
        self.stdout.write(
            f"API key     {made['key']}   (shown only now)\n\nTry it:\n\n"
            f"  curl -H 'Authorization: Bearer {made['key']}' '{settings.BASE_URL}/pets?limit=3'\n"
        )
