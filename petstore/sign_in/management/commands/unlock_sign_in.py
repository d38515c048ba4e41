"""Lift the lockout of a user."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from petstore.management.base import JsonCommand
from petstore.sign_in.backends import normalize_login
from petstore.sign_in.rate_limits import unlock


class Command(JsonCommand):
    help = "Let a user sign in again at once after too many wrong passwords or codes."
    examples = "manage.py unlock_sign_in ann"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="The username.")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=normalize_login(options["name"])).first()
        if user is None:
            raise CommandError(f"No user has the name {options['name']!r}. Names are case-sensitive.")
        unlock(user)
        self.write_result({"name": user.username}, f"Done. {user.username} can sign in again.")
