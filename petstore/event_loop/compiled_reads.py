"""Reads whose SQL is compiled once: building it anew took Django a third of a request's time.

A `Read` says in Django's terms what is read, is narrowed as a queryset is, and gives mappings that are
ready for the answer. The first run of each form compiles the queryset; later ones send that SQL with their
own values, and PostgreSQL has it prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.models import QuerySet
from django.db.transaction import TransactionManagementError

from petstore.db import replicas
from petstore.db.keysets import is_one_row, order_for
from petstore.event_loop.greenlets import on_loop, this_turn
from petstore.event_loop.libpq import Statement, compiled, named
from petstore.event_loop.pg_connection import reader

Rows = list[dict[str, Any]]
Source = Callable[[], QuerySet[Any, Any]]

FIRST_MARK = -(10**15)  # Stands for a value while a queryset is compiled: no id, no choice and no text.


class CompiledRead(NamedTuple):
    """A compiled queryset. Its last placeholder is the number of rows."""

    statement: Statement
    parameters: tuple[tuple[str | None, Any], ...]  # The filter that gives the value, or a fixed value.
    as_mappings: Callable[[Any], Rows]
    convert: Callable[[Any], Any] | None  # Where the database lacks a type, as SQLite does dates.


class Read:
    """Rows of a queryset of `.values()`, by ascending id. Immutable: `where` returns a narrower one.

    Running it raises LookupError where the model has no index for what it is filtered by: a page that is
    quick today would be slow with other rows.
    """

    def __init__(
        self, model: type[models.Model], source: Source, wider: Read | None = None, /, **filters: Any
    ) -> None:
        self._model = model
        self._source = source
        self._filters = filters
        self._statements: dict[tuple[Any, ...], CompiledRead] = wider._statements if wider else {}

    def where(self, **filters: Any) -> Read:
        """Return those of the rows that meet these lookups; each value must suit its field."""
        return Read(self._model, self._source, self, **(self._filters | filters))

    def first(self, count: int, using: str = DEFAULT_DB_ALIAS) -> Rows:
        """Return so many rows of this database; while that fails, of the primary."""
        return replicas.read(using, self._first, count)

    def one(self, using: str = DEFAULT_DB_ALIAS) -> dict[str, Any] | None:
        rows = replicas.read(using, self._first, 1)
        return rows[0] if rows else None

    def _first(self, alias: str, count: int) -> Rows:
        read = self._compiled(alias)
        values = [value if name is None else self._filters[name] for name, value in read.parameters]
        parameters = [*values, count]
        rows = run(alias, read.statement, parameters, parameters)
        if read.convert:
            rows = read.convert(rows)
        return read.as_mappings(rows)

    def _compiled(self, alias: str) -> CompiledRead:
        # A choice stands in the SQL itself, so that PostgreSQL takes the partial index that was made for it
        # even in a prepared statement; there are as many statements as choices.
        known = choice_fields(self._model)
        form = (alias, *(item if item[0] in known else item[0] for item in self._filters.items()))
        if form not in self._statements:
            choices = {name: value for name, value in self._filters.items() if name in known}
            self._statements[form] = compile_read(self._in_order(), alias, tuple(self._filters), choices)
        return self._statements[form]

    def _in_order(self) -> QuerySet[Any, Any]:
        """Return the queryset in the order of its `keyset`, which filters may name; one row has none."""
        columns = frozenset(name for name in self._filters if "__" not in name)
        if is_one_row(self._model, columns):
            return self._source().order_by()
        rows: QuerySet[Any, Any] = self._source().alias(keyset=order_for(self._model, columns))
        return rows.order_by("keyset")


class OwnRead:
    """SQL that Django can't say, with parameters as psycopg names them: %(name)s. It reads the primary."""

    def __init__(self, text: str) -> None:
        self.statement, self.names = named(text)

    def rows(self, **parameters: int | str) -> list[tuple[Any, ...]]:
        """Run it; not under `atomic`. Raises what Django raises for a query."""
        values = [parameters[name] for name in self.names]
        return replicas.read(DEFAULT_DB_ALIAS, run, self.statement, values, parameters)


def run(alias: str, statement: Statement, values: Sequence[Any], for_django: Any) -> list[tuple[Any, ...]]:
    """Return a statement's rows; Django has its own parameters."""
    if on_loop():
        if this_turn().transaction is not None:
            raise TransactionManagementError("Under `atomic` read with `refresh`: see petstore.event_loop.")
        return reader(alias).rows(statement, values)
    with connections[alias].cursor() as cursor:
        cursor.execute(statement.django, for_django)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


@cache
def choice_fields(model: type[models.Model]) -> frozenset[str]:
    """Return the names of a model's fields that have one of a few values."""
    return frozenset(field.name for field in model._meta.concrete_fields if field.choices)


def mapper(columns: Sequence[str]) -> Callable[[Any], Rows]:
    """Return what makes mappings of rows; written out, it takes a quarter of the time of `dict(zip())`."""
    names = [f"column_{number}" for number in range(len(columns))]
    pairs = ", ".join(f"{column!r}: {name}" for column, name in zip(columns, names, strict=True))
    source = f"lambda rows: [{{{pairs}}} for {', '.join(names)}, in rows]"
    made: Callable[[Any], Rows] = eval(source)  # noqa: S307  Its names are the code's own.
    return made


def compile_read(
    queryset: QuerySet[Any, Any], alias: str, filters: tuple[str, ...], choices: dict[str, str]
) -> CompiledRead:
    """Compile a queryset for a database; filters that are no choices get placeholders."""
    marks = {name: choices.get(name, FIRST_MARK - number) for number, name in enumerate(filters)}
    compiler = queryset.filter(**marks).query.get_compiler(alias)
    sql, values = compiler.as_sql()
    names: dict[Any, str] = {mark: name for name, mark in marks.items()}
    names |= {str(mark): name for name, mark in marks.items()}  # As the field of a text has it.
    text, *rest = sql.split("%s")
    parameters = []
    for value, part in zip(values, rest, strict=True):
        name = names.get(value)
        if name in choices:
            assert value.isidentifier()  # One of the model's own words: nothing to escape.
            text += f"'{value}'{part}"
        else:
            parameters.append((name, None if name else value))
            text += f"%s{part}"
    converters = compiler.get_converters([column for column, *_ in compiler.select])
    return CompiledRead(
        statement=compiled(f"{text} LIMIT %s"),
        parameters=tuple(parameters),
        as_mappings=mapper([alias for *_, alias in compiler.select]),
        convert=(lambda rows: compiler.apply_converters(rows, converters)) if converters else None,
    )
