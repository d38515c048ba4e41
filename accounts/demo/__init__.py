"""An invented history for demonstrations: accounts, keys, and what they sent on each day.

The same choices give the same history. Nobody has the text of its keys: their digests are random.
"""

from datetime import datetime
from random import Random

from accounts.demo import customers, keys, refusals, usage
from accounts.models import Account


def add_history(choose: Random, now: datetime, days: int, count: int) -> list[Account]:
    """Add that many accounts with so many days of history up to now; return them, the oldest first.

    Call it in a transaction.
    """
    cast = customers.add(choose, now, days, count)
    keys.add(choose, now, cast)
    demand = usage.demand(choose, cast, now, days)
    usage.add_daily(choose, cast, demand)
    usage.add_today(cast, demand, now.date())
    usage.add_loads(choose, cast, demand, now.date())
    refusals.add(choose, cast, demand, now)
    usage.add_deprecated_calls(choose, cast, now, days)
    return [customer.account for customer in cast]
