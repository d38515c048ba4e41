"""Finding rows by the start of a name, in either case and any normal form, in the order of an index."""

from typing import Any

from django.db.models import BinaryField, CharField, Func, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat, Length
from django.db.models.lookups import GreaterThan

from petstore.db.identity import is_postgresql
from petstore.db.names import nfc

LAST = "\U0010ffff"  # Sorts after every character that a name may have.
ASCII = "".join(map(chr, range(128)))


class Folded(Func):
    """A text in capitals, compared character by character, so that an index finds prefixes.

    PostgreSQL folds every script, in NFC; SQLite the letters A to Z only. A function of ours in an index
    of SQLite would keep every other program from writing pets, the version before this one included.
    """

    function = "UPPER"
    arity = 1
    output_field = CharField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Return SQL for PostgreSQL, whose own order of texts follows a language."""
        template = '(%(function)s(NORMALIZE(%(expressions)s)) COLLATE "C")'
        return self.as_sql(compiler, connection, template=template, **context)


def starting_with(rows: QuerySet[Any], start: str, *, or_else: Q | None = None) -> QuerySet[Any]:
    """Return the rows whose `name` starts so, or for which `or_else` holds, by `folded` name and id."""
    start = indexed = nfc(start)
    if not is_postgresql():
        indexed = start[: len(start) - len(start.lstrip(ASCII))]
    end = Concat(Folded(Value(indexed)), Value(LAST))
    found = Q(folded__gte=Folded(Value(indexed)), folded__lt=end)
    if indexed != start:  # Names of ASCII alone are passed over without a call of Python's function.
        found &= Q(GreaterThan(Length(Cast("name", BinaryField())), Length("name")))
    if not is_postgresql():
        found &= Q(name__search_key__startswith=start)
    if or_else is not None:
        found |= or_else
    matches: QuerySet[Any] = rows.annotate(folded=Folded("name")).filter(found).order_by("folded", "pk")
    return matches
