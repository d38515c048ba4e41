"""List API keys."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from accounts.management.base import KEY_RELATIONS, format_table, serialize_key
from accounts.models import Account, ApiKey
from petstore.db.names import find_by_name
from petstore.management.base import JsonCommand

COLUMNS = ("id", "account", "plan", "state", "last_used_at", "today", "name")


class Command(JsonCommand):
    help = "List API keys, newest first."
    examples = """
        manage.py list_keys
        manage.py list_keys --account "Acme Pets" --json
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--account", metavar="NAME", help="Only this account's keys.")

    def handle(self, *args: Any, **options: Any) -> None:
        keys = ApiKey.objects.select_related(*KEY_RELATIONS).prefetch_related("account__usage")
        if options["account"] is not None:
            name = options["account"].strip()
            account = find_by_name(Account.objects.all(), name)
            if account is None:
                raise CommandError(f"No account has the name {name!r}. Omit --account to list all keys.")
            keys = keys.filter(account=account)
        rows = [serialize_key(key) for key in keys]
        placeholder = "There are no keys. Issue one with issue_key."
        self.write_result(rows, format_table(COLUMNS, map(format_row, rows), placeholder))


def format_row(row: dict[str, Any]) -> dict[str, Any]:
    state = "banned" if row["state"] == "active" and row["banned_until"] else row["state"]
    return row | {"state": state, "today": f"{row['used_today']} of {row['limit_per_day']}"}
