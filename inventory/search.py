"""Finding rows by the start of a name, in either case, by an index and in the order of names."""

from typing import Any

from django.db.models import CharField, Func, Q, QuerySet, Value
from django.db.models.functions import Concat

LAST = "\U0010ffff"  # Sorts after every character that a name may have.


class Folded(Func):
    """A text in capitals, compared character by character, so that an index finds prefixes.

    PostgreSQL folds every script, SQLite the letters A to Z only.
    """

    function = "UPPER"
    arity = 1
    output_field = CharField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Return SQL for PostgreSQL, whose own order of texts follows a language."""
        template = '(%(function)s(%(expressions)s) COLLATE "C")'
        return self.as_sql(compiler, connection, template=template, **context)


def starting_with(rows: QuerySet[Any], start: str, *, or_else: Q | None = None) -> QuerySet[Any]:
    """Return the rows whose `name` starts so, or for which `or_else` holds, by `folded` name and id."""
    end = Concat(Folded(Value(start)), Value(LAST))
    found = Q(folded__gte=Folded(Value(start)), folded__lt=end)
    if or_else is not None:
        found |= or_else
    matches: QuerySet[Any] = rows.annotate(folded=Folded("name")).filter(found).order_by("folded", "pk")
    return matches
