"""The order of filtered lists: the id, as an expression that only the index for the filter has.

PostgreSQL assumes that matching rows are spread evenly over the table. `ORDER BY id LIMIT 21` then looks
cheap along the primary key, but scans the whole table if all matching rows are at its end. No other index
is in the order of `id + 0`, so the planner must use the index for the filter, regardless of statistics.
Lists with two filters have an expression of their own, since an index for one of them would look as cheap.

It suffices to declare an index in the model's `Meta`: `choose_order` finds its order.

Queries for one row have no order: with one, PostgreSQL would plan to scan the primary key while the table
is small, and keep that plan as it grows.
"""

from typing import Any

from django.db.models import BigIntegerField, F, Func, Model, Q
from django.db.models.expressions import Combinable


class Key(Func):
    arity = 1
    output_field = BigIntegerField()


class OneFilterKey(Key):
    template = "(%(expressions)s + 0)"


class TwoFilterKey(Key):
    template = "(0 + %(expressions)s)"


def is_one_row(model: type[Model], columns: frozenset[str]) -> bool:
    """Whether the columns identify a row."""
    fields = [model._meta.get_field(name) for name in columns]
    asked = {field.name for field in fields}
    unique = model._meta.total_unique_constraints
    return any(getattr(field, "unique", False) for field in fields) or any(
        asked >= set(constraint.fields) for constraint in unique
    )


def choose_order(model: type[Model], columns: frozenset[str]) -> Combinable:
    """Choose the order of rows that are filtered by these columns.

    Raises LookupError if no index has that order, since some pages would be slow.
    """
    fields: dict[str, Any] = {name: model._meta.get_field(name) for name in columns}
    asked = {field.name for field in fields.values()}
    if not fields or is_one_row(model, columns):
        return F("id")
    for index in model._meta.indexes:
        *names, key = index.expressions or ("",)
        if isinstance(key, Key) and set(map(F, asked)) == set(names):
            return key
    # Or one column, with a partial index of ids for each of its choices.
    by_id = [index.condition for index in model._meta.indexes if index.fields == ["id"]]
    wanted = [Q((name, value)) for name, field in fields.items() for value, _ in field.flatchoices]
    if len(fields) == 1 and wanted and all(condition in by_id for condition in wanted):
        return F("id")
    raise LookupError(f"{model.__name__} has no index for a list by {' and '.join(sorted(columns))}.")
