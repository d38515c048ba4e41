"""Context processors."""

from contextlib import suppress
from functools import partial
from typing import Any

from django.db import Error
from django.http import HttpRequest

from accounts.models import Account, Membership, Role
from accounts.portal.access import find_own_membership

MAX_NAMED = 5


def own_accounts(request: HttpRequest) -> dict[str, Any]:
    """Add functions that return the accounts in which the user may issue keys, and a membership."""

    def find() -> list[Account]:
        with suppress(Error):  # The documentation works without a database.
            members = Membership.objects.filter(user=request.user.pk, role__in=[Role.OWNER, Role.DEVELOPER])
            return list(Account.objects.filter(memberships__in=members).order_by("name")[:MAX_NAMED])
        return []

    return {"own_accounts": find, "own_membership": partial(find_own_membership, request)}
