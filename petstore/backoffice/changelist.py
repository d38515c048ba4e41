"""Changelists for large tables: keyset pagination instead of OFFSET and COUNT(*)."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.views import ChangeList

from petstore.api.int64 import parse_id
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.db.keysets import Key

AFTER, BEFORE = "after", "before"
MAX_ACTION_ROWS = 200


class KeysetPaginator(Paginator):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Provides only the template of the page links, because KeysetChangeList selects the rows."""

    template_name = "admin/list_pages.html"
    count = 0


class KeysetChangeList(ChangeList):
    """A changelist whose pages start after a row (`?after=ID`) or end before one (`?before=ID`)."""

    previous_query = next_query = ""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        # These parameters are not filters, and links to other filters lead to the first page.
        for params in (self.params, self.filter_params):
            params.pop(AFTER, None)
            params.pop(BEFORE, None)
        queryset: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        key = cast("LargeTableMixin", self.model_admin).get_ordering_key(request, self.get_active_filters())
        ordering = [str(name) for name in queryset.query.order_by]
        if key is not None and {name.removeprefix("-") for name in ordering} == {"id"}:
            queryset = queryset.alias(key=key).order_by(ordering[0].replace("id", "key"))
        return queryset

    def get_active_filters(self) -> tuple[str, ...]:
        """Return the parameters of the active filters, sorted. If any has several values, return none."""
        active = {name: values for name, values in self.filter_params.items() if any(values)}
        return tuple(sorted(active)) if all(len(values) == 1 for values in active.values()) else ()

    def get_ordering_field(self, field_name: Any) -> Any:
        """Ignore columns that have no index to sort by, although `?o=` may name them."""
        return super().get_ordering_field(field_name) if field_name in (self.sortable_by or ()) else None

    def get_results(self, request: HttpRequest) -> None:
        """Read one row more than fits on the page, to know whether another page follows."""
        after, before = parse_id(request.GET.get(AFTER)), parse_id(request.GET.get(BEFORE))
        backwards = after is None and before is not None
        queryset = self.queryset.reverse() if backwards else self.queryset
        boundary = before if backwards else after
        condition = None if boundary is None else self.build_seek_condition(queryset, boundary)
        if continues_list := condition is not None:
            queryset = queryset.filter(condition)
        rows = list(queryset[: self.list_per_page + 1])
        has_more = len(rows) > self.list_per_page
        rows = rows[: self.list_per_page]
        has_previous, has_next = continues_list, has_more
        if backwards:
            rows.reverse()
            has_previous, has_next = has_next, has_previous
        if rows and has_previous:
            self.previous_query = self.get_query_string({BEFORE: rows[0].pk})
        if rows and has_next:
            self.next_query = self.get_query_string({AFTER: rows[-1].pk})
        self.first_query = self.get_query_string() if continues_list else ""
        self.result_list = rows
        # Large tables are not counted. With several pages, this is the most rows that an action may change.
        self.result_count = MAX_ACTION_ROWS if self.previous_query or self.next_query else len(rows)
        self.full_result_count = self.result_count  # Hides the "show all" link.
        self.show_full_result_count = False
        self.show_admin_actions = True
        self.can_show_all = self.multi_page = self.show_all = False
        self.paginator = KeysetPaginator(rows, self.list_per_page)

    def find_neighbours(self, pk: int) -> list[Any]:
        """Return the rows before and after this one, or None where the list ends."""
        directions = [self.queryset.reverse(), self.queryset]
        conditions = [(rows, self.build_seek_condition(rows, pk)) for rows in directions]
        return [rows.filter(condition).first() if condition else None for rows, condition in conditions]

    def build_seek_condition(self, queryset: QuerySet[Any], pk: int) -> Q | None:
        """Build the condition for the rows after this one, or return None if its sort value is missing."""
        first_ordering = str(queryset.query.order_by[0])
        name = first_ordering.removeprefix("-")
        is_descending = first_ordering.startswith("-") == queryset.query.standard_ordering
        lookup = "lt" if is_descending else "gt"
        if name in {"pk", "id", "key"}:
            return Q(**{f"{name}__{lookup}": pk})
        # The list is ordered by a value, then by ID. The value may have changed since the page was loaded.
        manager, expression = queryset.model._base_manager, queryset.query.annotations.get(name, name)
        value = manager.filter(pk=pk).values_list(expression, flat=True).first()
        if value is None:
            return None
        # The first condition bounds the index scan, and the second skips rows with an equal value.
        return Q(**{f"{name}__{lookup}e": value}) & (
            Q(**{f"{name}__{lookup}": value}) | Q(**{f"pk__{lookup}": pk})
        )


def selects_all_pages(request: HttpRequest) -> bool:
    """Whether the selection extends beyond the rows on the page."""
    return request.POST.get("select_across") == "1"


class LargeTableMixin(PetstoreModelAdmin):
    list_filter_submit = True
    sortable_by = ["id"]  # Other columns have no index to sort by.
    # For combinations of filter parameters, the indexed expression that replaces the ID in their ordering.
    keys: Mapping[tuple[str, ...], Key] = {}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return KeysetChangeList

    def get_ordering_key(self, request: HttpRequest, filters: tuple[str, ...]) -> Key | None:
        """Return the expression that these filters order by, or None for the ID itself."""
        return None if request.GET.get(SEARCH_VAR, "").strip() else self.keys.get(filters)

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any], *args: Any) -> Any:
        """Run the action on the selected rows, or on the first MAX_ACTION_ROWS of the list."""
        if selects_all_pages(request):
            first_ids = list(queryset.values_list("pk", flat=True)[:MAX_ACTION_ROWS])
            return super().response_action(request, queryset.filter(pk__in=first_ids), *args)
        selected_ids = [parse_id(text) for text in request.POST.getlist(ACTION_CHECKBOX_NAME)]
        if None in selected_ids or len(selected_ids) > MAX_ACTION_ROWS:
            text = f"Nothing was changed. Select at most {MAX_ACTION_ROWS} rows and try again."
            self.message_user(request, text, messages.WARNING)
            return None
        return super().response_action(request, queryset.filter(pk__in=selected_ids), *args)


# --- Filters


class ChoiceFilter(admin.SimpleListFilter):
    """A filter that ignores values in the URL that are not among its options."""

    options: Sequence[tuple[str, str]] = ()
    field: str  # Used by the default `get_condition`.

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(self.options)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        options = {str(option) for option, _ in self.lookup_choices}
        return queryset.filter(self.get_condition(value)) if value in options else queryset

    def get_condition(self, value: str) -> Q:
        return Q(**{self.field: value})


class TimeFilter(ChoiceFilter):
    title = "time"
    options = [("1", "Last 24 hours"), ("7", "Last 7 days"), ("30", "Last 30 days")]

    def get_condition(self, value: str) -> Q:
        return Q(**{f"{self.field}__gte": timezone.now() - timedelta(days=int(value))})
