"""Invite a member to an account."""

from argparse import ArgumentParser
from typing import Any

from accounts.management.base import KeyCommand, format_time, get_account, get_operator
from accounts.models import Invitation, Role
from petstore.management.base import escape_nonprintable


class Command(KeyCommand):
    publishes = False
    help = "Print a link with which a person joins an account. It works once, for 7 days."
    examples = """
        manage.py invite --account 4fKq9TzB --email ann@example.com --role owner
        manage.py invite --account 4fKq9TzB --email ben@example.com --json
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--account", required=True, metavar="ID", help="The account's public ID.")
        text = "Whom you invite. No email is sent."
        parser.add_argument("--email", required=True, metavar="ADDRESS", help=text)
        text = "What they may do. Default: developer, or owner if the account has no member."
        parser.add_argument("--role", choices=Role.values, help=text)

    def run(self, options: dict[str, Any]) -> None:
        account = get_account(options["account"])
        default = Role.DEVELOPER if account.memberships.exists() else Role.OWNER
        role, email = options["role"] or default, options["email"]
        invitation, link = Invitation.objects.invite(account, email=email, role=role, by=get_operator())
        expires_at = format_time(invitation.expires_at)
        data = {"id": invitation.public_id, "account": account.public_id, "role": role}
        name = escape_nonprintable(account.name)
        text = f"{invitation.get_role_display()} of {name}. Works once, until {expires_at}."
        self.write_result(options, data | {"expires_at": expires_at, "link": link}, f"{link}\n\n{text}")
