"""List the members of an account."""

from argparse import ArgumentParser
from typing import Any

from accounts.management.base import format_table, get_account
from petstore.management.base import JsonCommand

COLUMNS = ("id", "member", "role", "state", "since", "until")


class Command(JsonCommand):
    help = "List the members of an account, and its open invitations."
    examples = "manage.py list_members --account 4fKq9TzB"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--account", required=True, metavar="ID", help="The account's public ID.")

    def handle(self, *args: Any, **options: Any) -> None:
        account = get_account(options["account"])
        members = account.memberships.select_related("user")
        rows = [serialize(row, str(row.user), "joined") for row in members]
        rows += [serialize(row, row.email, "invited", row.expires_at) for row in account.invitations.open()]
        placeholder = "The account has no members. Invite one with invite."
        self.write_result(rows, format_table(COLUMNS, rows, placeholder))


def serialize(row: Any, member: str, state: str, until: Any = None) -> dict[str, Any]:
    values = (row.public_id, member, row.role, state, row.created_at, until)
    return dict(zip(COLUMNS, values, strict=True))
