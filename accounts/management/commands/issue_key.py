"""Issue an API key."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from accounts.keys.scopes import SCOPES
from accounts.management.base import (
    comma_separated,
    days_from_now,
    get_operator,
    serialize_key,
)
from accounts.models import Account, ApiKey, PlanCode
from petstore.db.names import NAME_LENGTH, find_by_name
from petstore.management.base import JsonCommand, escape_nonprintable


class Command(JsonCommand):
    help = "Issue an API key. Creates the account if it does not exist."
    examples = """
        manage.py issue_key --account "Acme Pets"
        manage.py issue_key --account "Acme Pets" --plan pro --name "Till 3" --scopes pets:read,orders:read
        manage.py issue_key --account "Big Pets" --plan enterprise --per-minute 5000 --per-day 1000000
        manage.py issue_key --account "Acme Pets" --expires-in-days 30 --allow-from 192.0.2.0/24 --json
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_argument = parser.add_argument
        add_argument("--account", required=True, metavar="NAME", help="The account that owns the key.")
        text = "The account's plan. Default: unchanged, or free for a new account."
        add_argument("--plan", choices=PlanCode.values, help=text)
        add_argument("--name", default="", metavar="TEXT", help="What the key is for.")
        text = f"What the key may do. Default: {', '.join(SCOPES)}."
        add_argument("--scopes", type=comma_separated, default=SCOPES, metavar="A,B", help=text)
        text = "Days until the key expires. Default: never."
        add_argument("--expires-in-days", type=int, metavar="N", help=text)
        text = "Networks from which the key may be used. Default: all."
        add_argument("--allow-from", type=comma_separated, metavar="CIDR,CIDR", help=text)
        add_argument("--per-minute", type=int, metavar="N", help="Minute limit, for Enterprise only.")
        add_argument("--per-day", type=int, metavar="N", help="Daily limit, for Enterprise only.")

    def handle(self, *args: Any, **options: Any) -> None:
        key, key_text = self.issue(options)
        account = f"{escape_nonprintable(key.account.name)} ({key.account.plan})"
        text = f"{key_text}\n\nKey {key.public_id} of {account}. Copy it now: it can't be shown again."
        self.write_result({"key": key_text, **serialize_key(key)}, text)

    @transaction.atomic
    def issue(self, options: dict[str, Any]) -> tuple[ApiKey, str]:
        account = self.get_or_create_account(options)
        expires_at = days_from_now(options["expires_in_days"])
        allow_from = options["allow_from"]
        if allow_from == []:  # An empty variable in a script must not allow every network.
            raise CommandError("--allow-from names no network. Omit it to allow all.")
        return ApiKey.objects.issue(
            account,
            name=options["name"],
            key_scopes=options["scopes"],
            expires_at=expires_at,
            allowed_networks=allow_from or [],
            by=get_operator(),
        )

    def get_or_create_account(self, options: dict[str, Any]) -> Account:
        name = options["account"].strip()
        if not 1 <= len(name) <= NAME_LENGTH:
            raise CommandError(f"--account must be a name of 1 to {NAME_LENGTH} characters.")
        # The lock prevents overwriting a concurrent change of the plan by staff or another command. Usage
        # can still be written, since NO KEY does not block references to the account.
        accounts = Account.objects.select_for_update(no_key=True)
        per_minute, per_day = options["per_minute"], options["per_day"]
        account = find_by_name(accounts, name)
        if account is None:
            plan_id = options["plan"] or PlanCode.FREE
            fields = {"name": name, "plan_id": plan_id, "per_minute": per_minute, "per_day": per_day}
            # A concurrent command may create the account first, so get_or_create checks the uniqueness.
            Account(**fields).full_clean(validate_unique=False)
            account, is_new = accounts.get_or_create(name__nfc=name, defaults=fields)
            if is_new:
                return account
        plan = options["plan"] or account.plan_id
        if plan == account.plan_id and per_minute is None and per_day is None:
            per_minute, per_day = account.per_minute, account.per_day
        account.assign(PlanCode(plan), per_minute, per_day)
        return account
