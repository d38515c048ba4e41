"""The client and its groups of operations."""

import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any, Generic, TypeVar

from petstore_client._transport import Transport
from petstore_client.errors import ApiError, ConnectionFailedError, EventsLostWarning, RateLimit
from petstore_client.models import (
    AccountOverview,
    Category,
    Event,
    NewPet,
    Order,
    OrderStatus,
    Page,
    Pet,
    PetStatus,
    decode,
)  # fmt: skip

T = TypeVar("T")
MAX_PAGE = 100


class Client:
    """A client with an API key, for use by any number of threads.

    `base_url` ends in `/v1`. `timeout` is the seconds to wait for a response. `retries` are sent after
    connection errors, 408, 409 `idempotency_key_in_use`, 429 and 5xx. A wait that Retry-After demands holds
    for all clients of this process with the same key and host. If it takes more than `max_wait` seconds,
    RateLimitError is raised at once. At most `max_in_flight` requests with the key are sent concurrently.
    """

    def __init__(
        self,
        key: str,
        *,
        base_url: str,
        timeout: float = 30.0,
        retries: int = 2,
        max_wait: float = 60.0,
        max_in_flight: int = 8,
    ) -> None:
        self._transport = Transport(
            key, base_url, timeout=timeout, retries=retries, max_wait=max_wait, max_in_flight=max_in_flight
        )
        self.pets = Pets(self._transport, "listPets", Pet)
        self.categories = Categories(self._transport, "listCategories", Category)
        self.orders = Orders(self._transport, "listOrders", Order)
        self.events = Events(self._transport, "listEvents", Event)

    def __repr__(self) -> str:
        return f"Client(base_url={self._transport.base_url!r})"  # Without the key.

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections."""
        self._transport.close()

    @property
    def quota(self) -> RateLimit | None:
        """The rate limit that the latest response reported."""
        return self._transport.quota

    def account(self) -> AccountOverview:
        """Get the account, the key and both quotas. Free, and possible while other requests must wait."""
        overview: AccountOverview = decode(AccountOverview, self._transport.send("getAccount").body)
        return overview


class _Resource(Generic[T]):
    def __init__(self, transport: Transport, list_operation: str, model: type[T]) -> None:
        self._transport, self._list_operation, self._model = transport, list_operation, model

    def _list(self, **query: Any) -> Page[T]:
        reply = self._transport.send(self._list_operation, query=query)
        return Page(decode(list[self._model], reply.body), reply.next_query.get("cursor"))  # type: ignore[name-defined]

    def _iterate(self, **query: Any) -> Iterator[T]:
        query["limit"] = MAX_PAGE
        while True:
            reply = self._transport.send(self._list_operation, query=query)
            yield from decode(list[self._model], reply.body)  # type: ignore[name-defined]
            if not reply.next_query:
                return
            query = dict(reply.next_query)

    def _send(self, operation: str, **options: Any) -> T:
        result: T = decode(self._model, self._transport.send(operation, **options).body)
        return result


class Pets(_Resource[Pet]):
    def create_many(self, pets: list[NewPet], *, idempotency_key: str | None = None) -> list[Pet]:
        """Create 1 to 100 pets with one request, all or none. Returns them in the same order."""
        body = {"pets": [encode_pet(pet) for pet in pets]}
        reply = self._transport.send("createPets", body=body, idempotency_key=idempotency_key)
        created: list[Pet] = decode(list[Pet], reply.body)
        return created

    def list(
        self,
        *,
        status: PetStatus | None = None,
        category_id: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Pet]:
        """Get a page of at most `limit` pets (1 to 100, by default 20), ordered by id."""
        return self._list(status=status, categoryId=category_id, limit=limit, cursor=cursor)

    def iterate(self, *, status: PetStatus | None = None, category_id: int | None = None) -> Iterator[Pet]:
        """Yield all pets, ordered by id. Each 100 cost one request."""
        return self._iterate(status=status, categoryId=category_id)

    def create(
        self,
        name: str,
        category_id: int,
        *,
        status: PetStatus | None = None,
        idempotency_key: str | None = None,
    ) -> Pet:
        """Create a pet, once even if it is retried.

        With an `idempotency_key` of your own, it can be repeated for 24 hours, after a restart as well.
        """
        body = encode_pet(NewPet(name, category_id, status))
        return self._send("createPet", body=body, idempotency_key=idempotency_key)

    def get(self, pet_id: int) -> Pet:
        """Get a pet. Deprecated by the API: see `list`."""
        return self._send("getPet", resource_id=pet_id)


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
        return self._send("placeOrder", body={"petId": pet_id}, idempotency_key=idempotency_key)

    def get(self, order_id: int) -> Order:
        """Get an order of the account."""
        return self._send("getOrder", resource_id=order_id)

    def cancel(self, order_id: int) -> None:
        """Cancel an order that is not approved yet. Repeating it changes nothing."""
        self._transport.send("cancelOrder", resource_id=order_id)


class Events(_Resource[Event]):
    def list(
        self,
        *,
        type: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Event]:
        """Get a page of events. Its `next_cursor` is never None, and gets later events."""
        return self._list(type=type, since=format_time(since), limit=limit, cursor=cursor)

    def follow(
        self,
        *,
        type: str | None = None,
        since: datetime | None = None,
        cursor: str | None = None,
        save: Callable[[str], object] | None = None,
        interval: float = 5.0,
        stop: threading.Event | None = None,
        on_lost: Callable[[ApiError], object] | None = None,
    ) -> Iterator[Event]:
        """Yield events as they happen, until `stop` is set.

        `type` is one type, or a prefix such as `order`. `save` is called with the cursor once the events
        before it were processed; pass the latest as `cursor` after a restart. `interval` is the seconds
        between polls. Outages are waited for. If events after the cursor are no longer kept, `on_lost` is
        called, or EventsLostWarning is issued, and the oldest event kept is next.
        """
        stop = stop or threading.Event()
        first = {"type": type, "limit": MAX_PAGE}
        query: dict[str, Any] = first | {"since": format_time(since), "cursor": cursor}
        if cursor is not None:
            query["since"] = None
        etag, failures = "", 0
        while not stop.is_set():
            try:
                reply = self._transport.send("listEvents", query=query, etag=etag)
            except ConnectionFailedError:
                failures += 1
            except ApiError as error:
                if error.code == "cursor_expired":
                    report_lost_events(error, on_lost)
                    query, etag = first, ""
                    continue
                if error.status < 500:
                    raise
                failures += 1
            else:
                failures = 0
                events = decode(list[Event], reply.body) or []
                yield from events
                if save is not None and reply.next_query.get("cursor") != query.get("cursor"):
                    save(reply.next_query["cursor"])
                query, etag = dict(reply.next_query), reply.etag
                if events:
                    continue
            stop.wait(max(interval, min(2.0**failures, 60.0) if failures else 0.0))


def encode_pet(pet: NewPet) -> dict[str, Any]:
    body = {"name": pet.name, "categoryId": pet.category_id, "status": pet.status}
    return {name: value for name, value in body.items() if value is not None}


def format_time(time: datetime | None) -> str | None:
    """Format as RFC 3339 in UTC. A naive time is local."""
    if time is None:
        return None
    return time.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def report_lost_events(error: ApiError, on_lost: Callable[[ApiError], object] | None) -> None:
    if on_lost is not None:
        on_lost(error)
    else:
        warnings.warn(
            "Events after the cursor are no longer kept, and are lost.", EventsLostWarning, stacklevel=3
        )
