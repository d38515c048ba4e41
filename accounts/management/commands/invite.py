"""Invite a member to an account."""

from argparse import ArgumentParser
from typing import Any

from accounts.management.base import get_account, get_operator
from accounts.models import Invitation, Role
from petstore.management.base import JsonCommand, escape_nonprintable


class Command(JsonCommand):
    help = "Invite a person to an account, and print the link. It works once and expires after 7 days."
    examples = """
        manage.py invite --account 4fKq9TzB --email ann@example.com --role owner
        manage.py invite --account 4fKq9TzB --email ben@example.com --json
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--account", required=True, metavar="ID", help="The account's public ID.")
        text = "The address of the person you invite. If EMAIL_URL is set, the link is also sent by email."
        parser.add_argument("--email", required=True, metavar="ADDRESS", help=text)
        text = "The role of the new member. Default: developer, or owner if the account has no members."
        parser.add_argument("--role", choices=Role.values, help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        account = get_account(options["account"])
        default = Role.DEVELOPER if account.memberships.exists() else Role.OWNER
        role, email = options["role"] or default, options["email"]
        invitation, link = Invitation.objects.invite(account, email=email, role=role, by=get_operator())
        expires_at = invitation.expires_at
        data = {"id": invitation.public_id, "account": account.public_id, "role": role}
        name = escape_nonprintable(account.name)
        text = f"{invitation.get_role_display()} of {name}. Works once, until {expires_at}."
        self.write_result(data | {"expires_at": expires_at, "link": link}, f"{link}\n\n{text}")
