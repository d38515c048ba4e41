"""Remove the second factors of a user who has lost them."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from accounts.management.base import get_operator
from petstore.management.base import JsonCommand
from petstore.sign_in.backends import find_user
from petstore.sign_in.second_factors import reset_two_factor


class Command(JsonCommand):
    help = (
        "Remove the authenticator app, the passkeys and the recovery codes of a user. Until they set up a "
        "new second factor, their password alone is enough to sign in."
    )
    examples = 'manage.py reset_two_factor ann --reason "Lost the phone"'

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="The username, or the confirmed email address.")
        parser.add_argument("--reason", required=True, help="For the audit trail.")

    def handle(self, *args: Any, **options: Any) -> None:
        user = find_user(options["name"])
        if user is None:
            raise CommandError(f"No user has the name {options['name']!r}. Usernames are case-sensitive.")
        reset_two_factor(user, reason=options["reason"], by=get_operator())
        text = f"Done. {user.username} can sign in with the password alone."
        self.write_result({"name": user.username}, text)
