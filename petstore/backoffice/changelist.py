"""Changelists for large tables: keyset pagination instead of OFFSET and COUNT(*)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.views import ChangeList

from petstore.api.int64 import INT64_MAX
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.db.keysets import Key

AFTER, BEFORE = "after", "before"
MAX_ACTION_ROWS = 200


def parse_id(text: str | None) -> int | None:
    """Parse a decimal id, capped at INT64_MAX. None for any other text."""
    if not text or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    return min(int(text), INT64_MAX)


class KeysetPaginator(Paginator):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Names the template of the page links. KeysetChangeList selects the rows."""

    template_name = "admin/list_pages.html"
    count = 0


class KeysetChangeList(ChangeList):
    """A changelist whose pages start after, or end before, a row: `?after=ID`, `?before=ID`."""

    previous_query = next_query = ""
    after = before = None

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        # Neither is a filter, and links to other filters lead to the first page.
        for params in (self.params, self.filter_params):
            params.pop(AFTER, None)
            params.pop(BEFORE, None)
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        key = cast("BigTableAdmin", self.model_admin).ordering_key(request, self.active_filters())
        order = [str(name) for name in rows.query.order_by]
        if key is not None and {name.removeprefix("-") for name in order} == {"id"}:
            rows = rows.alias(key=key).order_by(order[0].replace("id", "key"))
        return rows

    def active_filters(self) -> tuple[str, ...]:
        """Return the active filters' parameters, sorted; none if any has several values."""
        chosen = {name: values for name, values in self.filter_params.items() if any(values)}
        return tuple(sorted(chosen)) if all(len(values) == 1 for values in chosen.values()) else ()

    def get_ordering_field(self, field_name: Any) -> Any:
        """Ignore columns without an index to sort by: `?o=` may name any."""
        return super().get_ordering_field(field_name) if field_name in (self.sortable_by or ()) else None

    def get_results(self, request: HttpRequest) -> None:
        """Read one row more than the page has, to know whether another page follows."""
        after, before = parse_id(request.GET.get(AFTER)), parse_id(request.GET.get(BEFORE))
        backwards = after is None and before is not None
        rows = self.queryset.reverse() if backwards else self.queryset
        edge = before if backwards else after
        window = None if edge is None else self.seek_condition(rows, edge)
        page = list((rows if window is None else rows.filter(window))[: self.list_per_page + 1])
        more = len(page) > self.list_per_page
        page = page[: self.list_per_page]
        if backwards:
            page.reverse()
        if page and (more if backwards else window is not None):
            self.previous_query = self.get_query_string({BEFORE: page[0].pk})
        if page and (window is not None if backwards else more):
            self.next_query = self.get_query_string({AFTER: page[-1].pk})
        self.first_query = self.get_query_string() if window is not None else ""
        self.result_list = page
        # Not a count: with other pages, the number of rows that an action on all of them takes.
        self.result_count = MAX_ACTION_ROWS if self.previous_query or self.next_query else len(page)
        self.full_result_count = self.result_count  # Hides the "show all" link.
        self.show_full_result_count = False
        self.show_admin_actions = True
        self.can_show_all = self.multi_page = self.show_all = False
        self.paginator = KeysetPaginator(page, self.list_per_page)

    def seek_condition(self, rows: QuerySet[Any], pk: int) -> Q | None:
        """Build the condition for the rows after this one; None if the row is gone or has no sort value."""
        first = str(rows.query.order_by[0])
        name = first.removeprefix("-")
        step = "lt" if first.startswith("-") == rows.query.standard_ordering else "gt"
        if name in {"pk", "id", "key"}:
            return Q(**{f"{name}__{step}": pk})
        # Ordered by a value, then by id. Read the value now: it may have changed since the link was made.
        model = rows.model._base_manager
        expressions = cast("BigTableAdmin", self.model_admin).expressions
        value = model.filter(pk=pk).values_list(expressions.get(name, name), flat=True).first()
        if value is None:
            return None
        # The first condition bounds the index scan, the second skips rows with an equal value.
        return Q(**{f"{name}__{step}e": value}) & (
            Q(**{f"{name}__{step}": value}) | Q(**{f"pk__{step}": pk})
        )


def selects_across(request: HttpRequest) -> bool:
    """Whether the selection extends beyond the rows on the page."""
    return request.POST.get("select_across") == "1"


class BigTableAdmin(PetstoreModelAdmin):
    list_filter_submit = True
    sortable_by = ["id"]  # The only column with an index to sort by.
    # Combinations of filter parameters, and the indexed expression that replaces the id in their ordering.
    keys: Mapping[tuple[str, ...], Key] = MappingProxyType({})
    # Annotations that the list may be ordered by, besides columns.
    expressions: Mapping[str, Any] = MappingProxyType({})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return KeysetChangeList

    def ordering_key(self, request: HttpRequest, filters: tuple[str, ...]) -> Key | None:
        """Return the expression to order by with these filters; None for the id itself."""
        return None if request.GET.get(SEARCH_VAR, "").strip() else self.keys.get(filters)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        fields = [entry[0] for entry in self.get_list_filter(request) if isinstance(entry, tuple)]
        suffixes = ("__exact", "__id__exact", "_from", "_to")  # The last two are for ranges.
        allowed = {f"{field}{suffix}" for field in fields for suffix in suffixes}
        return lookup in allowed or super().lookup_allowed(lookup, value, request)

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any], *args: Any) -> Any:
        """Run the action on the selected rows, or on the first MAX_ACTION_ROWS of the list."""
        if selects_across(request):
            first = list(queryset.values_list("pk", flat=True)[:MAX_ACTION_ROWS])
            return super().response_action(request, queryset.filter(pk__in=first), *args)
        chosen = [parse_id(text) for text in request.POST.getlist(ACTION_CHECKBOX_NAME)]
        if None in chosen or len(chosen) > MAX_ACTION_ROWS:
            text = f"Nothing was changed. Select at most {MAX_ACTION_ROWS} rows and try again."
            self.message_user(request, text, messages.WARNING)
            return None
        return super().response_action(request, queryset.filter(pk__in=chosen), *args)


# --- Filters


class ChoiceFilter(admin.SimpleListFilter):
    """A filter with fixed options. It ignores unknown values in the URL."""

    options: Sequence[tuple[str, str]] = ()
    field: str  # Compared with the option, unless `condition` is overridden.

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(self.options)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        known = {str(value) for value, _ in self.lookup_choices}
        return queryset.filter(self.condition(chosen)) if chosen in known else queryset

    def condition(self, chosen: str) -> Q:
        return Q(**{self.field: chosen})


class TimeFilter(ChoiceFilter):
    title = "time"
    options: Sequence[tuple[str, str]] = (
        ("1", "Last 24 hours"),
        ("7", "Last 7 days"),
        ("30", "Last 30 days"),
    )

    def condition(self, chosen: str) -> Q:
        return Q(**{f"{self.field}__gte": timezone.now() - timedelta(days=int(chosen))})
