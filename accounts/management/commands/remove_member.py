"""Remove a member from an account."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from accounts.management.base import get_operator
from accounts.models import Invitation, Membership
from petstore.management.base import JsonCommand, escape_nonprintable


class Command(JsonCommand):
    help = "Remove a member from an account, or withdraw an invitation."
    examples = """
        manage.py remove_member 7hQz2KdM
        manage.py remove_member 7hQz2KdM --reason "Left the company" --json
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        text = "The ID of the member or invitation: see list_members."
        parser.add_argument("member", metavar="ID", help=text)
        parser.add_argument("--reason", default="", metavar="TEXT", help="Stored in the account's history.")

    def handle(self, *args: Any, **options: Any) -> None:
        public_id, by, reason = options["member"], get_operator(), options["reason"]
        if member := Membership.objects.filter(public_id=public_id).first():
            member.remove(by=by, reason=reason)
            outcome = "removed"
        elif invitation := Invitation.objects.open().filter(public_id=public_id).first():
            invitation.withdraw(by=by, reason=reason)
            outcome = "withdrawn"
        else:
            raise CommandError(f"No member or open invitation has the ID {escape_nonprintable(public_id)}.")
        self.write_result({"id": public_id, "outcome": outcome}, f"Done. {public_id} is {outcome}.")
