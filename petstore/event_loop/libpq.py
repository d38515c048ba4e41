"""What libpq takes, statements and values as text, and what it gives."""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from itertools import count
from typing import Any, NamedTuple

from psycopg import Binary, pq
from psycopg.adapt import PyFormat, Transformer

Types = list[int]
Parameters = list[bytes | None]
Value = Any  # What Django passes to psycopg as a parameter.

# PostgreSQL's types by Python's, with how a value is written.
KINDS: dict[type, tuple[int, Callable[[Any], bytes | None]]] = {
    type(None): (0, lambda value: None),  # Of any type.
    int: (20, b"%d".__mod__),
    str: (25, lambda value: str(value).encode()),
    bool: (16, lambda value: b"t" if value else b"f"),
    date: (1082, lambda value: value.isoformat().encode()),
    datetime: (1184, lambda value: value.isoformat().encode()),
    Binary: (17, lambda value: b"\\x" + value.obj.hex().encode()),  # Of a BinaryField.
}

NUMBERS = count(1)


class Statement(NamedTuple):
    """SQL with $1, $2 and so on, and the name under which it is prepared."""

    name: bytes
    sql: bytes
    django: str = ""  # The same with Django's %s, where its connections may run it as well.


def compiled(sql: str) -> Statement:
    """Return a statement of Django's SQL, under a name that no other has."""
    first, *rest = sql.split("%s")
    text = first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
    return Statement(f"compiled_{next(NUMBERS)}".encode(), text.replace("%%", "%").encode(), sql)


def named(sql: str) -> tuple[Statement, list[str]]:
    """Return a statement of SQL whose parameters are named, as in %(name)s, and the names in order."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    numbered = sql
    for number, name in enumerate(names, 1):
        numbered = numbered.replace(f"%({name})s", f"${number}")
    return compiled(numbered)._replace(django=sql), names


def encoded(values: Sequence[Value]) -> tuple[Types, Parameters]:
    """Return the values' types, and the values, as libpq takes them."""
    types: Types = []
    parameters: Parameters = []
    for value in values:
        kind = type(value)
        if kind not in KINDS:  # Django's choices are texts, its numbers psycopg's own.
            kind = next((base for base in (str, int) if isinstance(value, base)), kind)
        if kind in KINDS:
            oid, write = KINDS[kind]
            types.append(oid)
            parameters.append(write(value))
        else:  # Whatever else psycopg knows, less quickly.
            dumper = Transformer().get_dumper(value, PyFormat.TEXT)
            types.append(dumper.oid)
            parameters.append(bytes(dumper.dump(value) or b""))
    return types, parameters


def results(libpq: Any) -> list[Any]:
    """Return the results that are complete, and the Syncs between them."""
    found = []
    ended = False  # libpq says None after each statement, and once more when nothing is left.
    while not libpq.is_busy():
        result = libpq.get_result()
        if result is None and ended:
            break
        ended = result is None or result.status == pq.ExecStatus.PIPELINE_SYNC
        if result is not None:
            found.append(result)
    return found
