"""Read-only admin of the event feed, for questions about what a client received and when."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import orjson
from django.contrib import admin
from django.contrib.admin.views.main import ORDER_VAR, SEARCH_VAR
from django.db.models import BigIntegerField, F, Func, Model, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter

from accounts.events import feed
from accounts.models import Account, ApiKey, Event, EventType
from accounts.models.events import PUBLIC_ACCOUNT_ID
from accounts.quota.limits import to_datetime, to_microseconds
from petstore.api.errors import ApiError
from petstore.api.int64 import parse_id
from petstore.backoffice.changelist import AFTER, BEFORE, ChoiceFilter, LargeTableMixin, TimeFilter
from petstore.backoffice.model_admin import change_url
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import SearchResult
from petstore.db.keysets import Key, OneFilterKey, TwoFilterKey
from petstore.db.names import find_by_name, visible_name

MAX_EVENTS_PER_KEY = 1_000
KEY_EVENT_TYPES = [event_type for event_type in EventType if event_type.value.startswith("key.")]


class EventTypeFilter(ChoiceFilter, DropdownFilter):
    title = "type"
    parameter_name = "type"
    options = tuple((event_type.value, event_type.value) for event_type in EventType)

    def get_condition(self, chosen: str) -> Q:
        if EventType(chosen).is_public:
            return Q(account_id=PUBLIC_ACCOUNT_ID, type=chosen)
        # A literal, since a generic plan cannot use the partial index with a parameter.
        public = Func(template=str(PUBLIC_ACCOUNT_ID), output_field=BigIntegerField())
        return Q(account_id__gt=public, type=chosen)


class EventTimeFilter(TimeFilter, DropdownFilter):
    """Translates the time to a position in the feed, since no index is ordered by time."""

    parameter_name = "days"
    options = [*TimeFilter.options[:2], ("older", "Older than 7 days")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Event]) -> QuerySet[Event]:
        chosen = self.value()
        if chosen not in dict(self.options):
            return queryset
        try:
            days = timedelta(days=7 if chosen == "older" else int(chosen))
            start = feed.find_id_before(to_microseconds(timezone.now() - days))
        except ApiError:  # Pruned: all stored events are newer.
            start = 0
        # Merged with the boundary of the page, since SQLite would scan the rows between the two. In an
        # ascending list, the boundary is on the other side.
        is_ascending = not request.GET.get(ORDER_VAR, "-").startswith("-")
        after, before = (
            None if is_ascending else parse_id(request.GET.get(name)) for name in (AFTER, BEFORE)
        )
        events = queryset.alias(position=get_ordering_key(request) or F("id"))
        if chosen == "older":
            return events.filter(position__lte=start if after is None else min(start, after))
        return events.filter(position__gt=max(start, before or 0))


def get_ordering_key(request: HttpRequest) -> Key | None:
    """Return the key of the index that serves the type filter and the search; None without either."""
    event_type = request.GET.get(EventTypeFilter.parameter_name, "")
    has_type = event_type in EventType.values
    has_term = bool(request.GET.get(SEARCH_VAR, "").strip())
    if has_type and (has_term or EventType(event_type).is_public):
        return TwoFilterKey("id")
    return OneFilterKey("id") if has_type or has_term else None


@admin.register(Event)
class EventAdmin(LargeTableMixin):
    can_add = can_change = can_delete = False
    list_display = ["event_id", "type", "created", "account", "description"]
    list_filter = [EventTypeFilter, EventTimeFilter]
    ordering = ["-id"]
    sortable_by = ["event_id"]
    search_fields = ["id"]
    search_help_text = "An account's full name or public ID, a key's public ID, or an event's ID"
    fields = readonly_fields = ("event_id", "type", "created", "account")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        name = Account.objects.filter(pk=OuterRef("account_id")).order_by().values("name")
        events: QuerySet[Event] = super().get_queryset(request)
        return events.annotate(account_name=Subquery(name))

    def get_ordering_key(self, request: HttpRequest, filters: tuple[str, ...]) -> Key | None:
        return get_ordering_key(request)

    def search(self, request: HttpRequest, rows: QuerySet[Event], term: str) -> QuerySet[Event]:
        if key := ApiKey.objects.filter(public_id=term).first():
            # Two queries: in a single one, the planner prefers to walk all events of the account in order.
            prefix = f'{{"key":{{"id":"{term}"'
            events = Event.objects.filter(account_id=key.account_id, type__in=KEY_EVENT_TYPES)
            ids = events.filter(data__startswith=prefix).values_list("pk", flat=True)
            return rows.filter(pk__in=list(ids[:MAX_EVENTS_PER_KEY]))
        accounts = Account.objects.filter(Q(public_id=term) | Q(name__search_key=term))
        if account := find_by_name(accounts, term) or accounts.first():
            return rows.filter(account_id=account.pk)
        return rows.filter(pk=parse_id(term) or 0)

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        """Find an event by terms such as `event 17`."""
        word, _, event_id = term.lower().partition(" ")
        if word == "event" and (pk := parse_id(event_id.removeprefix("#"))) is not None:
            for event in Event.objects.filter(pk=pk):
                yield SearchResult(1, "rss_feed", f"Event {pk}", event.type, change_url(event))

    @admin.display(description="ID", ordering="id")
    def event_id(self, event: Event) -> int:
        return event.pk

    @admin.display(description="at")
    def created(self, event: Event) -> str:
        return f"{to_datetime(event.created_at):%Y-%m-%d %H:%M:%S} UTC"

    @admin.display
    def account(self, event: Any) -> str:
        if event.account_id == PUBLIC_ACCOUNT_ID:
            return "all accounts"
        return visible_name(event.account_name or "deleted account")

    @admin.display(description="about")
    def description(self, event: Event) -> str:
        return describe_event(orjson.loads(event.data))

    def get_form_context(self, request: HttpRequest, row: Event) -> dict[str, Any]:
        """Add the event as `GET /v1/events` serves it, and links to its subjects."""
        served = feed.serialize_event(row.pk, row.type, row.created_at, row.data)
        event = orjson.loads(orjson.dumps(served, option=orjson.OPT_UTC_Z))
        subjects = [obj for find in subject_finders for obj in find(row.account_id, event["data"])]
        return {
            "json": orjson.dumps(event, option=orjson.OPT_INDENT_2).decode(),
            "subjects": [
                (obj._meta.verbose_name, obj, change_url(obj))
                for obj in subjects
                if may_view(request, obj._meta.label_lower)
            ],
        }


def describe_event(data: dict[str, Any]) -> str:
    if "threshold" in data:
        return f"{data['threshold']}% of the {data['window']}'s requests"
    if "firstId" in data:
        return f"{data['count']:,} pets, from {data['firstId']} to {data['lastId']}"
    subjects = ((name, value) for name, value in data.items() if isinstance(value, dict))
    return ", ".join(f"{name} {value.get('name') or value['id']}" for name, value in subjects)


def find_account_and_key(account_id: int, data: dict[str, Any]) -> Iterator[Model]:
    yield from Account.objects.filter(pk=account_id)
    if "key" in data:
        yield from ApiKey.objects.filter(public_id=data["key"]["id"])


# Functions that yield an event's subjects, given its account ID and data. Other apps append theirs.
subject_finders: list[Callable[[int, dict[str, Any]], Iterator[Model]]] = [find_account_and_key]
