"""Statements, parameters and results in libpq's formats."""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import cache
from itertools import count
from typing import Any, NamedTuple

from psycopg import Binary, DataError, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.numeric import Int2, Int4, Int8

Types = list[int]
Parameters = list[bytes | None]
Value = Any  # A parameter as Django passes it to psycopg.


def encode_text(value: Any) -> bytes:
    if "\0" in value:  # libpq would cut the text off here.
        raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return str(value).encode()


# The PostgreSQL OID of each Python type, and its encoder for the text format.
ENCODERS: dict[type, tuple[int, Callable[[Any], bytes | None]]] = {
    type(None): (0, lambda value: None),  # OID 0 leaves the type unspecified.
    int: (20, b"%d".__mod__),
    Int2: (21, b"%d".__mod__),  # The values of Django's integer fields.
    Int4: (23, b"%d".__mod__),
    Int8: (20, b"%d".__mod__),
    str: (25, encode_text),
    bool: (16, lambda value: b"t" if value else b"f"),
    date: (1082, lambda value: value.isoformat().encode()),
    datetime: (1184, lambda value: value.isoformat().encode()),
    Binary: (17, lambda value: b"\\x" + value.obj.hex().encode()),  # The value of a BinaryField.
}

statement_numbers = count(1)


class Statement(NamedTuple):
    """SQL with the placeholders $1, $2, ..., and the name of its prepared statement."""

    name: bytes
    sql: bytes
    django: str = ""  # The same SQL with %s placeholders, for Django's connections.


def compile_statement(sql: str) -> Statement:
    """Convert %s placeholders, and assign a unique name."""
    converted, *fragments = sql.split("%s")
    for number, fragment in enumerate(fragments, 1):
        converted += f"${number}{fragment}"
    name = f"compiled_{next(statement_numbers)}"
    return Statement(name.encode(), converted.replace("%%", "%").encode(), sql)


@cache
def compile_named_parameters(sql: str) -> tuple[Statement, list[str]]:
    """Convert %(name)s placeholders. Returns the statement and the names of its parameters in order."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    converted = sql
    for number, name in enumerate(names, 1):
        converted = converted.replace(f"%({name})s", f"${number}")
    return compile_statement(converted)._replace(django=sql), names


def encode_values(values: Sequence[Value]) -> tuple[Types, Parameters]:
    """Encode values in the text format. Returns the OIDs of their types as well."""
    types: Types = []
    parameters: Parameters = []
    for value in values:
        kind = type(value)
        if kind not in ENCODERS:  # It may be a subclass, such as Django's choices.
            kind = next((base for base in (str, int) if isinstance(value, base)), kind)
        if kind in ENCODERS:
            oid, encode = ENCODERS[kind]
            types.append(oid)
            parameters.append(encode(value))
        else:
            dumper = Transformer().get_dumper(value, PyFormat.TEXT)
            # psycopg types an array by its largest number, but a prepared statement keeps its first types.
            types.append(0 if isinstance(value, list) else dumper.oid)
            parameters.append(bytes(dumper.dump(value) or b""))
    return types, parameters


def read_results(libpq: Any) -> list[Any]:
    """Read the results that have arrived completely, including Syncs."""
    results = []
    ended = False  # libpq returns None after each statement, and once more at the end.
    while not libpq.is_busy():
        result = libpq.get_result()
        if result is None and ended:
            break
        ended = result is None or result.status == pq.ExecStatus.PIPELINE_SYNC
        if result is not None:
            results.append(result)
    return results
