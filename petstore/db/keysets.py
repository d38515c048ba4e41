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

from django.db.models import BigIntegerField, F, Func, Lookup, Model, Q
from django.db.models.expressions import Combinable


class Key(Func):
    arity = 1
    output_field = BigIntegerField()


class OneFilterKey(Key):
    template = "(%(expressions)s + 0)"


class TwoFilterKey(Key):
    template = "(0 + %(expressions)s)"


@BigIntegerField.register_lookup
class AnyOf(Lookup):
    """Compares with the numbers of a text such as "1,2,3": one parameter, however many there are."""

    lookup_name = "any_of"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        column, parameters = self.process_lhs(compiler, connection)
        comparison = "IN (SELECT value FROM json_each('[' || %s || ']'))"  # SQLite.
        if connection.vendor == "postgresql":
            comparison = "= ANY (string_to_array(%s, ',')::bigint[])"
        return f"{column} {comparison}", (*parameters, str(self.rhs))


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
        if isinstance(key, Key) and filter_columns == set(index_columns) and not index.condition:
            return key
    if len(fields) == 1:  # Each choice of the column may have a partial index of ids.
        ((name, field),) = fields.items()
        conditions = [index.condition for index in model._meta.indexes if index.fields == ["id"]]
        choices = [Q((name, value)) for value, _ in field.flatchoices]
        if choices and all(choice in conditions for choice in choices):
            return F("id")
    raise LookupError(f"{model.__name__} has no index for a list by {' and '.join(sorted(columns))}.")
