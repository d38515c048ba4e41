"""Thousands of keys at once: for what must cost little however many are in use."""

from accounts.models import Account, ApiKey, PlanCode

AT_ONCE = 1_000  # Rows of one statement.


def many_keys(number: int) -> list[ApiKey]:
    """Make so many keys, each with an account of its own."""
    names = [f"{one:08}" for one in range(number)]
    accounts = Account.objects.bulk_create(
        (Account(name=name, public_id=name, plan_id=PlanCode.FREE) for name in names), AT_ONCE
    )
    return ApiKey.objects.bulk_create(
        (
            ApiKey(
                account=account,
                public_id=f"{account.name}abcdef",
                mode="live",
                pepper_number=1,
                scopes="pets:read",
            )
            for account in accounts
        ),
        AT_ONCE,
    )
