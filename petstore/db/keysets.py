"""The order of filtered lists, which is an expression that only the index for the filter contains.

PostgreSQL assumes that matching rows are spread evenly over the table. `ORDER BY id LIMIT 21` therefore
seems cheap along the primary key, but scans the whole table if all matching rows are at its end. No other
index is in the order of `id + 0`, so the planner must use the index for the filter, regardless of
statistics. Lists with two filters use a different expression, because an index for one of the filters would
seem equally cheap.

To support another filter, declare an index in the model's `Meta`. `choose_order` finds it.

Queries for one row must not be ordered. Otherwise PostgreSQL would plan to scan the primary key while the
table is small, and keep that plan as the table grows.
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
    """Return whether filters by these columns match at most one row."""
    fields = [model._meta.get_field(name) for name in columns]
    if any(getattr(field, "unique", False) for field in fields):
        return True
    names = {field.name for field in fields}
    return any(names >= set(constraint.fields) for constraint in model._meta.total_unique_constraints)


def choose_order(model: type[Model], columns: frozenset[str]) -> Combinable:
    """Choose the order of rows that are filtered by these columns.

    Raises LookupError if no index has a suitable order, because some pages would be slow.
    """
    if not columns or is_one_row(model, columns):
        return F("id")
    fields: dict[str, Any] = {name: model._meta.get_field(name) for name in columns}
    filter_columns = {F(field.name) for field in fields.values()}
    for index in model._meta.indexes:
        *index_columns, key = index.expressions or ("",)
        if isinstance(key, Key) and filter_columns == set(index_columns):
            return key
    if len(fields) == 1:  # Each choice of the column may have a partial index of ids.
        ((name, field),) = fields.items()
        conditions = [index.condition for index in model._meta.indexes if index.fields == ["id"]]
        choices = [Q((name, value)) for value, _ in field.flatchoices]
        if choices and all(choice in conditions for choice in choices):
            return F("id")
    raise LookupError(f"{model.__name__} has no index for a list by {' and '.join(sorted(columns))}.")
