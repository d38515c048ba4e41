"""Querysets that are compiled to SQL only once, because building the SQL for each request is slow.

A `Read` wraps a queryset and can be narrowed like one. Its first run with a given set of filters and
choices compiles the SQL. Later runs reuse it with other values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.models import Case, F, QuerySet, When

from petstore.db import replicas
from petstore.db.event_loop.greenlets import current_connections, is_on_loop
from petstore.db.event_loop.libpq import Statement, compile_named_parameters, compile_statement
from petstore.db.event_loop.shared_connection import get_read_pipeline
from petstore.db.keysets import choose_order, is_one_row

Rows = list[dict[str, Any]]

IDS = "id__any_of"  # The filter by ids.
FIRST_PLACEHOLDER = -(10**15)  # Stands for a filter's value during compilation. No queryset contains it.


class CompiledRead(NamedTuple):
    """A compiled queryset, whose last placeholder is the maximum number of rows."""

    statement: Statement
    parameters: tuple[tuple[str | None, Any], ...]  # The name of a filter, or None and a fixed value.
    columns: tuple[str, ...]
    convert: Callable[[Any], Any] | None  # Applies Django's converters, if the columns have any.


@dataclass(eq=False, slots=True)
class Read:
    """An immutable query for the rows of a `.values()` queryset, in ascending order of ids.

    Declare it once, at import. `where` narrows it, and `fetch` and `fetch_one` run it:

        PETS = Read(Pet, lambda: Pet.objects.values("id", "name"))
        PETS.where(status="sold", id__gt=7).fetch(20)
        PETS.where(id=7).fetch_one()

    It is an optional fast path: `Pet.objects` works everywhere as well, but Django builds the SQL of a
    queryset each time, which takes longer than everything else that a request for a list does. A Read
    compiles its SQL once for each set of filters, and on the event loop all reads share a connection.

    It supports filters by equality, `__gt` and the like, whose values have the types of their fields, and
    `id__any_of`. It adds the order and the limit itself. Running it raises LookupError if the model has no
    index for its filters, and Django's database errors. In `transaction.atomic()` it reads on the
    connection of the block, so it sees the block's own writes. It locks no rows: for that, use
    `select_for_update()`.
    """

    _model: type[models.Model]
    _get_queryset: Callable[[], QuerySet[Any, Any]]
    _filters: dict[str, Any] = field(default_factory=dict)
    _statements: dict[tuple[Any, ...], CompiledRead] = field(default_factory=dict)

    def where(self, **filters: Any) -> Read:
        """Return a query with additional filters. Each value must have the type of its field."""
        return Read(self._model, self._get_queryset, self._filters | filters, self._statements)

    def fetch(self, count: int, using: str = DEFAULT_DB_ALIAS) -> Rows:
        """Read up to `count` rows, from the primary if the database `using` fails."""
        return replicas.read(using, self._fetch, count)

    def fetch_one(self, using: str = DEFAULT_DB_ALIAS) -> dict[str, Any] | None:
        rows = replicas.read(using, self._fetch, 1)
        return rows[0] if rows else None

    def _fetch(self, alias: str, count: int) -> Rows:
        read = self._get_compiled(alias)
        values = [value if name is None else self._filters[name] for name, value in read.parameters]
        parameters = [*values, count]
        rows = run(alias, read.statement, parameters, parameters)
        if read.convert:
            rows = read.convert(rows)
        return list(map(dict, map(zip, repeat(read.columns), rows)))  # Faster than a comprehension.

    def _get_compiled(self, alias: str) -> CompiledRead:
        # Each value of a field with choices is a literal in its own statement. Otherwise PostgreSQL could
        # not use the partial index for the value in a prepared statement.
        choice_fields = get_choice_fields(self._model)
        choices = {name: value for name, value in self._filters.items() if name in choice_fields}
        cache_key = (alias, *self._filters, *choices.values())
        if cache_key not in self._statements:
            self._statements[cache_key] = compile_read(
                self._get_ordered_queryset(), alias, tuple(self._filters), choices
            )
        return self._statements[cache_key]

    def _get_ordered_queryset(self) -> QuerySet[Any, Any]:
        """Order the queryset by the alias `keyset`, which lookups may use as well."""
        columns = frozenset(name for name in self._filters if "__" not in name)
        if is_one_row(self._model, columns):
            return self._get_queryset().order_by()
        order = F("id") if IDS in self._filters else choose_order(self._model, columns)
        queryset: QuerySet[Any, Any] = self._get_queryset().alias(keyset=order)
        return queryset.order_by("keyset")


class RawRead:
    """A raw SQL query with %(name)s parameters, which runs on the primary."""

    def __init__(self, sql: str) -> None:
        self.statement, self.names = compile_named_parameters(sql)

    def fetch_all(self, **parameters: int | str) -> list[tuple[Any, ...]]:
        """Run the query. Raises Django's database errors."""
        values = [parameters[name] for name in self.names]
        return replicas.read(DEFAULT_DB_ALIAS, run, self.statement, values, parameters)


def run(
    alias: str, statement: Statement, values: Sequence[Any], django_parameters: Any
) -> list[tuple[Any, ...]]:
    if is_on_loop():
        current = current_connections().get(alias)
        if current is None or not current.in_atomic_block:
            return get_read_pipeline(alias).fetch_rows(statement, values)
    with connections[alias].cursor() as cursor:
        cursor.execute(statement.django, django_parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


@cache
def get_choice_fields(model: type[models.Model]) -> frozenset[str]:
    return frozenset(column.name for column in model._meta.concrete_fields if column.choices)


def compile_read(
    queryset: QuerySet[Any, Any], alias: str, filters: tuple[str, ...], choices: dict[str, str]
) -> CompiledRead:
    """Compile a queryset, with choices as literals and the values of other filters as parameters."""
    placeholders = {name: choices.get(name, FIRST_PLACEHOLDER - n) for n, name in enumerate(filters)}
    compiler = apply_filters(queryset, dict(placeholders)).query.get_compiler(alias)
    sql, values = compiler.as_sql()
    names: dict[Any, str] = {placeholder: name for name, placeholder in placeholders.items()}
    # Text fields convert their placeholders to strings.
    names |= {str(placeholder): name for name, placeholder in placeholders.items()}
    text, *fragments = sql.split("%s")
    parameters = []
    for value, fragment in zip(values, fragments, strict=True):
        name = names.get(value)
        if name in choices:
            assert value.isidentifier()  # Identifiers need no escaping.
            text += f"'{value}'{fragment}"
        else:
            parameters.append((name, None if name else value))
            text += f"%s{fragment}"
    converters = compiler.get_converters([column for column, *_ in compiler.select])
    return CompiledRead(
        statement=compile_statement(f"{text} LIMIT %s"),
        parameters=tuple(parameters),
        columns=tuple(alias for *_, alias in compiler.select),
        convert=(lambda rows: compiler.apply_converters(rows, converters)) if converters else None,
    )


def apply_filters(queryset: QuerySet[Any, Any], values: dict[str, Any]) -> QuerySet[Any, Any]:
    """Filter a queryset. No index helps to filter rows with known ids, which are few, by other columns."""
    if IDS in values:
        columns = {name: values.pop(name) for name in list(values) if "__" not in name}
        if columns:
            values["matches"] = 1
            queryset = queryset.alias(matches=Case(When(**columns, then=1), default=0))
    return queryset.filter(**values)
