"""The client and its groups of operations."""

import json
import random
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import urllib3

from petstore_client._gate import get_gate
from petstore_client.errors import (
    ApiDeprecationWarning, ApiError, ConnectionFailedError, EventsLostWarning, PetstoreError, RateLimit,
    parse_error,
)  # fmt: skip
from petstore_client.models import (
    AccountOverview, Category, Event, NewPet, Order, OrderStatus, Page, Pet, PetStatus, decode, encode,
)  # fmt: skip

T = TypeVar("T")
USER_AGENT = "petstore-client-python/1.0.0"
FIRST_BACKOFF, MAX_BACKOFF = 0.5, 8.0  # Seconds.
CONNECT_SECONDS = 10.0
MAX_PAGE = 100
MAX_PAUSE = 60.0  # Seconds between the polls of `events.follow` during an outage.


class Client:
    """A client with an API key, for use by any number of threads.

    `base_url` ends in `/v1`. `timeout` is the seconds to wait for a response. `retries` are sent after
    connection errors, 408, 409 `idempotency_key_in_use`, 429 and 5xx. A wait that Retry-After demands holds
    for all clients of this process with the same key and host. If it takes more than `max_wait` seconds,
    RateLimitError is raised at once. At most `max_in_flight` requests with the key are sent concurrently.
    `quota` is the rate limit that the latest response reported.
    """

    def __init__(
        self, key: str, *, base_url: str, timeout: float = 30.0, retries: int = 2,
        max_wait: float = 60.0, max_in_flight: int = 8,
    ) -> None:  # fmt: skip
        if not re.fullmatch("[!-~]+", key):
            raise ValueError("The key must be visible ASCII characters.")
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must be an address such as https://pets.example/v1.")
        self.quota: RateLimit | None = None
        self._base_url, self._origin = base_url.rstrip("/"), f"{parts.scheme}://{parts.netloc.lower()}"
        self._key, self._timeout, self._retries = key, timeout, retries
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Accept": "application/json",
            "User-Agent": USER_AGENT,
        }
        self._max_wait, self._max_in_flight = max_wait, max_in_flight
        limits = urllib3.Timeout(connect=min(CONNECT_SECONDS, timeout), read=timeout)
        self._pool = urllib3.PoolManager(maxsize=max_in_flight, timeout=limits, retries=False)
        self.pets = Pets(self, "listPets", "/pets", Pet)
        self.categories = Categories(self, "listCategories", "/categories", Category)
        self.orders = Orders(self, "listOrders", "/store/orders", Order)
        self.events = Events(self, "listEvents", "/events", Event)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections."""
        self._pool.clear()

    def account(self) -> AccountOverview:
        """Get the account, the key and both quotas. Free, and possible while other requests must wait."""
        return decode(AccountOverview, self._send("getAccount", "GET", "/account", bucket="account")[0])

    def _post(self, name: str, path: str, body: Any, idempotency_key: str | None) -> Any:
        headers = {"Idempotency-Key": idempotency_key or str(uuid4())}
        return self._send(name, "POST", path, headers=headers, json=body)[0]

    def _send(
        self, name: str, method: str, path: str, *, bucket: str = "", **options: Any
    ) -> tuple[Any, Mapping[str, str]]:
        """Send an operation, with retries. Returns the body's JSON and the headers.

        Operations of different buckets have separate limits. Raises ApiError and ConnectionFailedError.
        """
        options["headers"] = self._headers | options.get("headers", {})
        gate = get_gate(self._origin, self._key, bucket)
        for attempt in range(self._retries + 1):
            gate.enter(self._max_in_flight, self._max_wait)
            error: PetstoreError | None = None
            try:
                return self._exchange(name, method, path, **options)
            except PetstoreError as failure:
                error = failure
                if attempt == self._retries or not is_retryable(error):
                    raise
            finally:
                gate.leave(error)
            if not isinstance(error, ApiError) or error.retry_after is None:
                longest = min(FIRST_BACKOFF * 2**attempt, MAX_BACKOFF)
                time.sleep(random.uniform(longest / 2, longest))  # noqa: S311
        raise AssertionError("The loop returns or raises.")

    def _exchange(self, name: str, method: str, path: str, **options: Any) -> tuple[Any, Mapping[str, str]]:
        """Send a request once. Times out as well if the body arrives too slowly."""
        end = time.monotonic() + self._timeout
        url, data = self._base_url + path, b""
        try:
            response = self._pool.request(method, url, redirect=False, preload_content=False, **options)
            while chunk := response.read1(1 << 16):
                data += chunk
                if time.monotonic() > end:
                    response.close()
                    raise urllib3.exceptions.TimeoutError("The response took too long.")
            response.release_conn()
            self.quota = RateLimit.parse(response.headers) or self.quota
            if response.status >= 300 and response.status != 304:
                raise parse_error(response, data)
            warn_of_deprecation(name, response.headers)
            return json.loads(data) if data else None, response.headers
        except (urllib3.exceptions.HTTPError, json.JSONDecodeError, UnicodeDecodeError) as failure:
            raise ConnectionFailedError(f"{method} {url}: {failure}") from failure


def is_retryable(error: PetstoreError) -> bool:
    if not isinstance(error, ApiError):
        return True
    return error.status in (408, 429) or error.status >= 500 or error.code == "idempotency_key_in_use"


_deprecated: dict[str, Mapping[str, str]] = {}  # The headers that were warned of, by operation.


def warn_of_deprecation(name: str, headers: Mapping[str, str]) -> None:
    """Warn once in this process if the operation is deprecated (RFC 9745, RFC 8594)."""
    announced = "Deprecation" in headers or "Sunset" in headers
    if announced and _deprecated.setdefault(name, headers) is headers:  # Atomic.
        end = f" It will be removed on {headers['Sunset']}." if "Sunset" in headers else ""
        warnings.warn(f"{name} is deprecated.{end}", ApiDeprecationWarning, stacklevel=5)


class _Resource(Generic[T]):
    def __init__(self, client: Client, list_name: str, path: str, model: type[T]) -> None:
        self._send, self._post = client._send, client._post
        self._list_name, self._path, self._model = list_name, path, model

    def _fetch(self, query: Mapping[str, Any], etag: str = "") -> Page[T]:
        conditions = {"If-None-Match": etag} if etag else {}
        rows, headers = self._send(self._list_name, "GET", self._path, headers=conditions, fields=query)
        return Page([decode(self._model, row) for row in rows or ()], headers)

    def _list(self, **query: Any) -> Page[T]:
        return self._fetch(encode(**query))

    def _iterate(self, **query: Any) -> Iterator[T]:
        next_query = encode(**query, limit=MAX_PAGE)
        while next_query:
            page = self._fetch(next_query)
            yield from page
            next_query = page._next_query


def join_ids(ids: Sequence[int] | None) -> str | None:
    return None if ids is None else ",".join(map(str, ids))


class Pets(_Resource[Pet]):
    def create_many(self, pets: list[NewPet], *, idempotency_key: str | None = None) -> list[Pet]:
        """Create 1 to 100 pets with one request, all or none. Returns them in the same order."""
        body = {"pets": [encode(**asdict(pet)) for pet in pets]}
        rows = self._post("createPets", "/pets/batch", body, idempotency_key)
        return [decode(Pet, row) for row in rows]

    def list(
        self, *, status: PetStatus | None = None, category_id: int | None = None,
        ids: Sequence[int] | None = None, limit: int | None = None, cursor: str | None = None,
    ) -> Page[Pet]:  # fmt: skip
        """Get a page of at most `limit` pets (1 to 100, by default 20), ordered by id.

        `ids` has 1 to 100 ids, of which unknown ones are left out.
        """
        filters = {"status": status, "category_id": category_id, "ids": join_ids(ids)}
        return self._list(**filters, limit=limit, cursor=cursor)

    def iterate(
        self, *, status: PetStatus | None = None, category_id: int | None = None,
        ids: Sequence[int] | None = None,
    ) -> Iterator[Pet]:  # fmt: skip
        """Yield all pets, ordered by id. Each 100 cost one request."""
        return self._iterate(status=status, category_id=category_id, ids=join_ids(ids))

    def create(
        self, name: str, category_id: int, *,
        status: PetStatus | None = None, idempotency_key: str | None = None,
    ) -> Pet:  # fmt: skip
        """Create a pet, once even if it is retried.

        With an `idempotency_key` of your own, it can be repeated for 24 hours, after a restart as well.
        """
        body = encode(name=name, category_id=category_id, status=status)
        return decode(Pet, self._post("createPet", "/pets", body, idempotency_key))

    def get(self, pet_id: int) -> Pet:
        """Get a pet. Deprecated by the API: see `list`."""
        return decode(Pet, self._send("getPet", "GET", f"/pets/{pet_id}")[0])


class Categories(_Resource[Category]):
    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Category]:
        """Get a page of categories, ordered by id."""
        return self._list(limit=limit, cursor=cursor)

    def iterate(self) -> Iterator[Category]:
        return self._iterate()


class Orders(_Resource[Order]):
    """The orders of the key's account."""

    def list(
        self, *, status: OrderStatus | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Page[Order]:
        """Get a page of the account's orders, ordered by id."""
        return self._list(status=status, limit=limit, cursor=cursor)

    def iterate(self, *, status: OrderStatus | None = None) -> Iterator[Order]:
        return self._iterate(status=status)

    def place(self, pet_id: int, *, idempotency_key: str | None = None) -> Order:
        """Order a pet. Raises ApiError with the code `pet_not_available` if another buyer was faster."""
        return decode(Order, self._post("placeOrder", "/store/orders", {"petId": pet_id}, idempotency_key))

    def get(self, order_id: int) -> Order:
        """Get an order of the account."""
        return decode(Order, self._send("getOrder", "GET", f"/store/orders/{order_id}")[0])

    def cancel(self, order_id: int) -> None:
        """Cancel an order that is not approved yet. Repeating it changes nothing."""
        self._send("cancelOrder", "DELETE", f"/store/orders/{order_id}")


def warn_of_lost_events(error: ApiError) -> None:
    message = "Events after the cursor are no longer kept, and are lost."
    warnings.warn(message, EventsLostWarning, stacklevel=3)


class Events(_Resource[Event]):
    def list(
        self, *, type: str | None = None, since: datetime | None = None,
        limit: int | None = None, cursor: str | None = None,
    ) -> Page[Event]:  # fmt: skip
        """Get a page of events. Its `next_cursor` is never None, and gets later events."""
        return self._list(type=type, since=since, limit=limit, cursor=cursor)

    def follow(
        self, *, type: str | None = None, since: datetime | None = None, cursor: str | None = None,
        save: Callable[[str], object] | None = None, interval: float = 5.0,
        stop: threading.Event | None = None, on_lost: Callable[[ApiError], object] = warn_of_lost_events,
    ) -> Iterator[Event]:  # fmt: skip
        """Yield events as they happen, until `stop` is set.

        `type` is one type, or a prefix such as `order`. `save` is called with the cursor once the events
        before it were processed; pass the latest as `cursor` after a restart. `interval` is the seconds
        between polls. Outages are waited for. If events after the cursor are no longer kept, `on_lost` is
        called, or EventsLostWarning is issued, and the oldest event kept is next.
        """
        stop = stop or threading.Event()
        start: dict[str, Any] = {"since": since} if cursor is None else {"cursor": cursor}
        query, etag, pause = encode(type=type, limit=MAX_PAGE, **start), "", 1.0
        while not stop.is_set():
            try:
                page = self._fetch(query, etag)
            except PetstoreError as error:
                if isinstance(error, ApiError) and error.code == "cursor_expired":
                    on_lost(error)
                    query, etag = encode(type=type, limit=MAX_PAGE), ""
                elif isinstance(error, ApiError) and error.status < 500:
                    raise
                else:
                    pause = min(2 * pause, MAX_PAUSE)
                    stop.wait(max(interval, pause))
                continue
            pause = 1.0
            yield from page
            if save is not None and page.next_cursor not in (None, query.get("cursor")):
                save(page.next_cursor)
            query, etag = page._next_query, page._etag
            if not page:
                stop.wait(interval)
