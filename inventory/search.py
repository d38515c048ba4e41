"""Indexed prefix search on names, ignoring case and Unicode normal form."""

from typing import Any

from django.db.models import BinaryField, CharField, Func, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat, Length
from django.db.models.lookups import GreaterThan

from petstore.db.folding import fold
from petstore.db.identity import is_postgresql
from petstore.db.names import to_nfc

HIGHEST_CHARACTER = "\U0010ffff"
ASCII = "".join(map(chr, range(128)))


class Folded(Func):
    """Uppercased text in binary order, so that an index on it serves searches by prefix.

    PostgreSQL folds the case of every script, in NFC; SQLite only of A to Z. In SQLite, an index on an
    application-defined function would prevent other programs, including the previous release, from writing
    pets.
    """

    function = "UPPER"
    arity = 1
    output_field = CharField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # Prefix ranges need the order of code points.
        template = f'({fold("NORMALIZE(%(expressions)s)")} COLLATE "C")'
        return self.as_sql(compiler, connection, template=template, **context)


def filter_by_prefix(
    queryset: QuerySet[Any], prefix: str, *, or_condition: Q | None = None
) -> QuerySet[Any]:
    """Filter on a prefix of `name`, or on `or_condition`; order by `folded` and primary key."""
    prefix = to_nfc(prefix)
    condition = build_range_condition(prefix) if is_postgresql() else build_sqlite_condition(prefix)
    if or_condition is not None:
        condition |= or_condition
    matches: QuerySet[Any] = queryset.annotate(folded=Folded("name")).filter(condition)
    return matches.order_by("folded", "pk")


def build_range_condition(prefix: str) -> Q:
    end = Concat(Folded(Value(prefix)), Value(HIGHEST_CHARACTER))
    return Q(folded__gte=Folded(Value(prefix)), folded__lt=end)


def build_sqlite_condition(prefix: str) -> Q:
    """Search the index for the ASCII part of the prefix, then compare the whole prefix in Python."""
    ascii_prefix = prefix[: len(prefix) - len(prefix.lstrip(ASCII))]
    condition = build_range_condition(ascii_prefix)
    if ascii_prefix != prefix:  # Skip ASCII names without calling the Python function.
        condition &= Q(GreaterThan(Length(Cast("name", BinaryField())), Length("name")))
    return condition & Q(name__search_key__startswith=prefix)
