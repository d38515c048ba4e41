"""Querysets that are compiled to SQL once, since building the SQL for each request is slow.

A `Read` wraps a queryset and is narrowed like one. The first run of each form compiles it; later runs send
the same SQL, which PostgreSQL has prepared, with their own values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.models import QuerySet
from django.db.transaction import TransactionManagementError

from petstore.db import replicas
from petstore.db.keysets import choose_order, is_one_row
from petstore.event_loop.greenlets import current_task, is_on_loop
from petstore.event_loop.libpq import Statement, compile_named_parameters, compile_statement
from petstore.event_loop.pg_connection import get_read_pipeline

Rows = list[dict[str, Any]]
Source = Callable[[], QuerySet[Any, Any]]

FIRST_PLACEHOLDER = -(10**15)  # Stands for a value during compilation: no id, choice or text equals it.


class CompiledRead(NamedTuple):
    """A compiled queryset. Its last placeholder is the number of rows."""

    statement: Statement
    parameters: tuple[tuple[str | None, Any], ...]  # A filter's name, or a fixed value.
    as_mappings: Callable[[Any], Rows]
    convert: Callable[[Any], Any] | None  # For types that the database lacks.


class Read:
    """Rows of a `.values()` queryset in ascending order of ids. Immutable: `where` returns a narrower one.

    Running it raises LookupError if the model has no index for its filters.
    """

    def __init__(
        self, model: type[models.Model], source: Source, wider: Read | None = None, /, **filters: Any
    ) -> None:
        self._model = model
        self._source = source
        self._filters = filters
        self._statements: dict[tuple[Any, ...], CompiledRead] = wider._statements if wider else {}

    def where(self, **filters: Any) -> Read:
        """Add lookups. Each value must have the type of its field."""
        return Read(self._model, self._source, self, **(self._filters | filters))

    def fetch(self, count: int, using: str = DEFAULT_DB_ALIAS) -> Rows:
        """Read up to `count` rows from this database, or from the primary if that fails."""
        return replicas.read(using, self._fetch, count)

    def fetch_one(self, using: str = DEFAULT_DB_ALIAS) -> dict[str, Any] | None:
        rows = replicas.read(using, self._fetch, 1)
        return rows[0] if rows else None

    def _fetch(self, alias: str, count: int) -> Rows:
        read = self._compiled(alias)
        values = [value if name is None else self._filters[name] for name, value in read.parameters]
        parameters = [*values, count]
        rows = run(alias, read.statement, parameters, parameters)
        if read.convert:
            rows = read.convert(rows)
        return read.as_mappings(rows)

    def _compiled(self, alias: str) -> CompiledRead:
        # Choices are literals in the SQL, one statement for each: only then does PostgreSQL use their
        # partial indexes in prepared statements.
        known = choice_fields(self._model)
        form = (alias, *(item if item[0] in known else item[0] for item in self._filters.items()))
        if form not in self._statements:
            choices = {name: value for name, value in self._filters.items() if name in known}
            self._statements[form] = compile_read(self._in_order(), alias, tuple(self._filters), choices)
        return self._statements[form]

    def _in_order(self) -> QuerySet[Any, Any]:
        """Add the `keyset` order. Filters may name it."""
        columns = frozenset(name for name in self._filters if "__" not in name)
        if is_one_row(self._model, columns):
            return self._source().order_by()
        rows: QuerySet[Any, Any] = self._source().alias(keyset=choose_order(self._model, columns))
        return rows.order_by("keyset")


class RawRead:
    """A raw SQL query of the primary, with %(name)s parameters."""

    def __init__(self, text: str) -> None:
        self.statement, self.names = compile_named_parameters(text)

    def fetch_all(self, **parameters: int | str) -> list[tuple[Any, ...]]:
        """Not under `atomic`. Raises what Django raises for a query."""
        values = [parameters[name] for name in self.names]
        return replicas.read(DEFAULT_DB_ALIAS, run, self.statement, values, parameters)


def run(
    alias: str, statement: Statement, values: Sequence[Any], django_parameters: Any
) -> list[tuple[Any, ...]]:
    if is_on_loop():
        if current_task().transaction is not None:
            raise TransactionManagementError("Under `atomic` read with `refresh`: see petstore.event_loop.")
        return get_read_pipeline(alias).fetch_rows(statement, values)
    with connections[alias].cursor() as cursor:
        cursor.execute(statement.django, django_parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


@cache
def choice_fields(model: type[models.Model]) -> frozenset[str]:
    return frozenset(field.name for field in model._meta.concrete_fields if field.choices)


def mapper(columns: Sequence[str]) -> Callable[[Any], Rows]:
    """Generate a function that converts rows to mappings, faster than `dict(zip())`."""
    names = [f"column_{number}" for number in range(len(columns))]
    pairs = ", ".join(f"{column!r}: {name}" for column, name in zip(columns, names, strict=True))
    source = f"lambda rows: [{{{pairs}}} for {', '.join(names)}, in rows]"
    function: Callable[[Any], Rows] = eval(source)  # noqa: S307  All names come from the code.
    return function


def compile_read(
    queryset: QuerySet[Any, Any], alias: str, filters: tuple[str, ...], choices: dict[str, str]
) -> CompiledRead:
    """Compile a queryset. Filters by other values than choices become parameters."""
    placeholders = {name: choices.get(name, FIRST_PLACEHOLDER - n) for n, name in enumerate(filters)}
    compiler = queryset.filter(**placeholders).query.get_compiler(alias)
    sql, values = compiler.as_sql()
    names: dict[Any, str] = {placeholder: name for name, placeholder in placeholders.items()}
    names |= {str(placeholder): name for name, placeholder in placeholders.items()}  # Of text fields.
    text, *rest = sql.split("%s")
    parameters = []
    for value, part in zip(values, rest, strict=True):
        name = names.get(value)
        if name in choices:
            assert value.isidentifier()  # Needs no escaping.
            text += f"'{value}'{part}"
        else:
            parameters.append((name, None if name else value))
            text += f"%s{part}"
    converters = compiler.get_converters([column for column, *_ in compiler.select])
    return CompiledRead(
        statement=compile_statement(f"{text} LIMIT %s"),
        parameters=tuple(parameters),
        as_mappings=mapper([alias for *_, alias in compiler.select]),
        convert=(lambda rows: compiler.apply_converters(rows, converters)) if converters else None,
    )
