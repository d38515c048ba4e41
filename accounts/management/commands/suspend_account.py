"""Suspend an account, or lift the suspension."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from accounts.management.base import get_operator
from accounts.models import Account
from petstore.db.names import find_by_name
from petstore.management.base import JsonCommand, escape_nonprintable


class Command(JsonCommand):
    help = "Reject all keys of an account with 403 until the suspension is lifted."
    examples = """
        manage.py suspend_account "Acme Pets" --reason "Unpaid since June"
        manage.py suspend_account "Acme Pets" --lift --reason "They have paid"
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account", metavar="NAME", help="The account's name.")
        parser.add_argument(
            "--reason", required=True, metavar="TEXT", help="Stored in the account's history."
        )
        parser.add_argument("--lift", action="store_true", help="Lift the suspension.")

    def handle(self, *args: Any, **options: Any) -> None:
        account = find_by_name(Account.objects.all(), options["account"])
        if account is None:
            raise CommandError(f"No account has the name {options['account']!r}.")
        action = account.lift_suspension if options["lift"] else account.suspend
        action(reason=options["reason"], by=get_operator())
        name, since = escape_nonprintable(account.name), account.suspended_at
        text = f"Done. {name} is suspended." if since else f"Done. The suspension of {name} is lifted."
        self.write_result({"account": account.name, "suspended_at": since}, text)
