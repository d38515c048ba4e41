"""What the page of errors says of each code. What stands between backticks is shown as code."""

from typing import NamedTuple

from django.conf import settings

from petstore.api.errors import ErrorCode as Code


class Advice(NamedTuple):
    happened: str
    to_do: str
    needs_support: bool = False  # Nothing that the client does alone will help.


ADVICE = {
    Code.MISSING_API_KEY: Advice(
        "The request had no `Authorization` header, or an empty one.",
        "Send `Authorization: Bearer <key>` with every request. Some HTTP clients drop this header when "
        "they follow a redirect: send requests to the base URL as it is written here.",
    ),
    Code.INVALID_API_KEY: Advice(
        "The header held no key that is valid here: it is incomplete or mistyped, was revoked, belongs to "
        "the other environment, or may not be used from your network address.",
        "Check that the whole key was sent, after `Bearer` and one space. If nothing follows `Bearer`, the "
        "variable that should have the key, such as `PETSTORE_KEY`, is not set where your program runs. "
        "`psk_live_` keys work in production, `psk_test_` keys in staging. Sending the same key again will "
        "not help: if it was revoked, ask for a new one.",
        needs_support=True,
    ),
    Code.EXPIRED_API_KEY: Advice(
        "The key was valid once, and its end has passed. A key that was rotated ends a while after its "
        "successor was made.",
        "Use the successor, or ask for a new key. No request with this key will succeed again.",
        needs_support=True,
    ),
    Code.INSUFFICIENT_SCOPE: Advice(
        "The key is valid, but was narrowed to scopes that do not include this operation.",
        "Use a key that has the scope; the guide to authentication says which operation needs which.",
        needs_support=True,
    ),
    Code.ACCOUNT_SUSPENDED: Advice(
        "The key is valid, but all keys of its account are refused until somebody at the shop lifts the "
        "suspension. The request cost nothing of the quota, and nothing was carried out.",
        "Stop sending, and ask why the account is suspended. Once that is lifted the same key works again, "
        "from the next request on.",
        needs_support=True,
    ),
    Code.MALFORMED_JSON: Advice(
        "The body could not be read as one JSON object in UTF-8. A member's name that comes twice, "
        "`NaN` and `Infinity` are no JSON either.",
        "Let a JSON library write the body, and send an object, not a list or a bare value.",
    ),
    Code.MISSING_FIELD: Advice(
        "A field that is required is not in the body. Other problems of the same body are reported with "
        "it.",
        "Read `details`: it names every field, what is wrong with it, and why. Correct all, then send "
        "again.",
    ),
    Code.INVALID_FIELD: Advice(
        "A field has a value of the wrong type or outside its bounds. Types are strict: `5` is an integer, "
        '`"5"` is not.',
        "Read `details`: it names every field, what is wrong with it, and why. Correct all, then send "
        "again.",
    ),
    Code.UNKNOWN_CATEGORY: Advice(
        "`categoryId` is an integer, but no category has this id.",
        "List the categories with `GET /categories` and use one of their ids. Ids differ between "
        "production and staging.",
    ),
    Code.INVALID_PARAMETER: Advice(
        "A query parameter or header has a value that the operation does not take: `limit` outside 1 to "
        "100, a value that a filter does not take, a parameter sent twice, a cursor that was changed.",
        "The message names the parameter. Take cursors from the `Link` header as they are.",
    ),
    Code.PET_NOT_FOUND: Advice(
        "No pet has this id, or the id is no integer.",
        "List the pets with `GET /pets`. Ids differ between production and staging.",
    ),
    Code.ORDER_NOT_FOUND: Advice(
        "Your account has no order with this id. Other accounts' orders are never shown.",
        "List your orders with `GET /store/orders`, and check that the key belongs to the account that "
        "ordered.",
    ),
    Code.RESOURCE_NOT_FOUND: Advice(
        "Nothing is at this path. A slash at the end makes another path: `/v1/pets/` is not `/v1/pets`.",
        "Compare the path with the reference.",
    ),
    Code.METHOD_NOT_ALLOWED: Advice(
        "The path exists, but does not take this method.",
        "The `Allow` header lists the methods that it takes.",
    ),
    Code.REQUEST_TIMEOUT: Advice(
        "The request announced a body, and did not send all of it within the time that a client has. "
        "Nothing was carried out.",
        "Send the request again, with its whole body at once. If it happens often, look at the connection, "
        "or at a client that opens a request before it knows the body.",
    ),
    Code.UNSUPPORTED_MEDIA_TYPE: Advice(
        "The body came with another `Content-Type` than JSON, with none, or with one of more than 256 "
        "bytes; or it was compressed, and had a `Content-Encoding`.",
        "Send `Content-Type: application/json`, and no `Content-Encoding`. Clients add the first by "
        "themselves when they are given JSON to send, rather than text.",
    ),
    Code.PAYLOAD_TOO_LARGE: Advice(
        "The body is larger than 64 KiB (65,536 bytes).",
        "Send a smaller body: a pet or an order needs a few hundred bytes.",
    ),
    Code.PET_NOT_AVAILABLE: Advice(
        "Somebody has ordered this pet already, or it is sold. Of several buyers at the same moment, "
        "one wins.",
        "Choose another with `GET /pets?status=available`. An order that is cancelled makes its pet "
        "available again.",
    ),
    Code.ORDER_NOT_CANCELLABLE: Advice(
        "The order is approved or delivered already; only a placed one can be cancelled.",
        "Fetch the order to see where it stands. To give a pet back, talk to the shop.",
        needs_support=True,
    ),
    Code.IDEMPOTENCY_KEY_REUSED: Advice(
        "In the last 24 hours your account sent this `Idempotency-Key` with another body or to another "
        "path. Nothing was done.",
        "Make a new key for each thing that you want done; use one again only to repeat the same request.",
    ),
    Code.IDEMPOTENCY_KEY_IN_USE: Advice(
        "The first request with this `Idempotency-Key` has not ended yet.",
        "Wait a second, then send the same request with the same key: you get the first one's answer.",
    ),
    Code.RATE_LIMIT_EXCEEDED: Advice(
        "Your account has used up its requests for this minute. The refused request cost nothing.",
        "Wait for as many seconds as `Retry-After` says. A key that keeps sending instead is banned.",
    ),
    Code.DAILY_QUOTA_EXCEEDED: Advice(
        "Your account has used up its requests for this day, which ends at midnight UTC.",
        "Wait for as many seconds as `Retry-After` says, which can be hours: stop the job rather than "
        "let it sleep. A larger plan holds at once.",
        needs_support=True,
    ),
    Code.API_KEY_BANNED: Advice(
        "The key kept sending after 429 for 20 seconds or more, and is banned for a while.",
        "Stop sending, and correct the client: it must wait as `Retry-After` says. The ban ends by itself; "
        "staff can lift it sooner. Other keys of the account still work.",
        needs_support=True,
    ),
    Code.ENDPOINT_REMOVED: Advice(
        "The operation was deprecated, and its announced date has passed.",
        "Use what replaced it; the guide to deprecation shows how.",
    ),
    Code.CURSOR_EXPIRED: Advice(
        "You asked for events from a point before the oldest that is kept: you may have missed some.",
        "Begin anew: ask with `since` of now, then read what you need from the lists, and follow the links "
        f"from there. Events are kept for {settings.EVENTS_KEPT_DAYS} days, so follow the links at least "
        "once a day.",
    ),
    Code.HEADERS_TOO_LARGE: Advice(
        "A header is longer than 8,192 bytes; several lines of the same header count together. The key was "
        "not read, so the request counts for your network address and not for your account.",
        "Read the message: it names the header. Send a shorter one.",
    ),
    Code.URI_TOO_LONG: Advice(
        "Path and query together are longer than 8,192 bytes.",
        "Send fewer or shorter parameters.",
    ),
    Code.SERVICE_UNAVAILABLE: Advice(
        "A part that the service needs did not answer, or two requests stood in each other's way.",
        "Wait as `Retry-After` says, then send again; a `POST` with its `Idempotency-Key`.",
    ),
    Code.INTERNAL_ERROR: Advice(
        "The service failed. It is not your request's fault.",
        "Send again later; a `POST` with its `Idempotency-Key`. If it stays, report the `X-Request-Id` "
        "of the answer: with it we find the request in the logs.",
        needs_support=True,
    ),
}
