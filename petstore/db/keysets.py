"""The order of filtered lists: the id, in a form that only the index made for the filter has.

PostgreSQL assumes that the rows a filter finds are spread evenly over the table. So `ORDER BY id LIMIT 21`
looks cheap along the primary key, and where those rows are all at its far end, it walks the whole table. No
other index is in the order of `id + 0`, so the index made for the filter is the only quick way, whatever
the statistics say. A list with two filters has a form of its own, or the index for one of them would look
almost as cheap.

An index of the model's `Meta` is all that has to be declared: `order_for` finds its order.

One row needs no order. With one, PostgreSQL would walk the primary key of a table that is still small, and
keep to that plan while it grows.
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
    """Tell whether no two rows have the same values in these columns."""
    fields = [model._meta.get_field(name) for name in columns]
    asked = {field.name for field in fields}
    unique = model._meta.total_unique_constraints
    return any(getattr(field, "unique", False) for field in fields) or any(
        asked >= set(constraint.fields) for constraint in unique
    )


def order_for(model: type[Model], columns: frozenset[str]) -> Combinable:
    """Return what to order rows by of which each of these columns has one value.

    Raises LookupError if no index gives that order: some pages of the list would be slow.
    """
    fields: dict[str, Any] = {name: model._meta.get_field(name) for name in columns}
    asked = {field.name for field in fields.values()}
    if not fields or is_one_row(model, columns):
        return F("id")
    for index in model._meta.indexes:
        *names, key = index.expressions or ("",)
        if isinstance(key, Key) and set(map(F, asked)) == set(names):
            return key
    # Or one column, with an index of the ids for each of its values.
    by_id = [index.condition for index in model._meta.indexes if index.fields == ["id"]]
    wanted = [Q((name, value)) for name, field in fields.items() for value, _ in field.flatchoices]
    if len(fields) == 1 and wanted and all(condition in by_id for condition in wanted):
        return F("id")
    raise LookupError(f"{model.__name__} has no index for a list by {' and '.join(sorted(columns))}.")
