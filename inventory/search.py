"""Indexed prefix search on names, ignoring case and Unicode normal form."""

from typing import Any

from django.db.models import BinaryField, CharField, Func, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat, Length
from django.db.models.lookups import GreaterThan

from petstore.db.identity import is_postgresql
from petstore.db.names import to_nfc

LAST = "\U0010ffff"  # Sorts after every character of a name.
ASCII = "".join(map(chr, range(128)))


class Folded(Func):
    """Upper-case text in binary order, so that an index serves prefixes.

    PostgreSQL folds every script, in NFC; SQLite only A to Z. An application-defined function in an index
    of SQLite would prevent other programs, including the previous release, from writing pets.
    """

    function = "UPPER"
    arity = 1
    output_field = CharField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # The default collation follows a language.
        template = '(%(function)s(NORMALIZE(%(expressions)s)) COLLATE "C")'
        return self.as_sql(compiler, connection, template=template, **context)


def filter_by_prefix(rows: QuerySet[Any], prefix: str, *, or_else: Q | None = None) -> QuerySet[Any]:
    """Filter on a prefix of `name`, or `or_else`; ordered by `folded` and primary key."""
    prefix = indexed = to_nfc(prefix)
    if not is_postgresql():
        indexed = prefix[: len(prefix) - len(prefix.lstrip(ASCII))]
    end = Concat(Folded(Value(indexed)), Value(LAST))
    found = Q(folded__gte=Folded(Value(indexed)), folded__lt=end)
    if indexed != prefix:  # Skip ASCII names without calling the Python function.
        found &= Q(GreaterThan(Length(Cast("name", BinaryField())), Length("name")))
    if not is_postgresql():
        found &= Q(name__search_key__startswith=prefix)
    if or_else is not None:
        found |= or_else
    matches: QuerySet[Any] = rows.annotate(folded=Folded("name")).filter(found).order_by("folded", "pk")
    return matches
