"""What changed for clients of the API. What operators notice is in CHANGELOG.md."""

from datetime import date
from typing import NamedTuple


class Change(NamedTuple):
    """What stands between backticks is shown as code."""

    day: date
    slug: str
    title: str
    text: str


# The newest first. Within /v1 only additions are made (D34).
CHANGES = (
    Change(
        date(2026, 11, 25),
        "bans",
        "A burst no longer leads to a ban",
        "A key is banned for ignoring 429 for 21 seconds. Requests in flight when the first 429 is sent, "
        "and up to 19 clients that share a key and each wait as told, no longer lead to a ban.",
    ),
    Change(
        date(2026, 11, 23),
        "account-suspended",
        "An account can be suspended",
        "All its keys then get 403 `account_suspended`, a new code, until the suspension is lifted. It "
        "costs nothing of the quota.",
    ),
    Change(
        date(2026, 11, 23),
        "events",
        "Follow what happens",
        "`GET /events`, with the scope `events:read`, is a feed of what happened to pets, and to your "
        "orders, keys and plan.",
    ),
    Change(
        date(2026, 11, 23),
        "account",
        "Ask what is left",
        "`GET /account` shows the account, the key, what is left of the quota, and a ban, for free.",
    ),
    Change(
        date(2026, 11, 23),
        "keys-that-are-not-ascii",
        "A key with other characters than ASCII is invalid",
        "It is answered with `invalid_api_key`, as every other mistyped key is, and no longer with "
        "`missing_api_key`.",
    ),
    Change(
        date(2026, 11, 22),
        "filter-by-category",
        "List the pets of one category",
        "`GET /pets` takes `categoryId`, alone or with `status`.",
    ),
    Change(
        date(2026, 11, 22),
        "request-timeout",
        "Bodies that come too slowly get an answer",
        "A body that does not arrive in time gets 408 `request_timeout`, with an Error and the quota's "
        "headers. Nothing was carried out, so the request can be sent again.",
    ),
    Change(
        date(2026, 11, 21),
        "version-1",
        "Version 1",
        "Pets, categories and orders; keys with scopes; plans and exact limits; `Idempotency-Key`. "
        "`GET /pets/{petId}` is deprecated, and goes on 5 December 2030.",
    ),
)
