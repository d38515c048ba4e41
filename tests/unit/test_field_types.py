"""The event loop supports every built-in field type, and rejects others at start."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.test.utils import isolate_apps
from psycopg import Binary
from psycopg.types.json import Jsonb

from petstore.apps import check_field_types
from petstore.db.event_loop.libpq import encode_values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, b"7"), ("a", b"a"), (True, b"t"), (None, None), (date(2024, 5, 17), b"2024-05-17"),
        (datetime(2024, 5, 17, tzinfo=UTC), b"2024-05-17T00:00:00+00:00"), (Binary(b"a"), b"\\x61"),
        (Decimal("1.50"), b"1.50"), (1.5, b"1.5"), (timedelta(days=1), b"1 day 0:00:00"),
        (UUID(int=1), b"00000000000000000000000000000001"), (Jsonb({"a": 1}), b'{"a": 1}'),
    ],
    ids=repr,
)  # fmt: skip
def test_value_of_every_field_type_is_sent(value: Any, text: bytes | None) -> None:
    _, (parameter,) = encode_values([value])
    assert parameter == text


@isolate_apps("inventory")
def test_field_of_an_unknown_type_stops_the_start() -> None:
    class Shape(models.Field):  # type: ignore[type-arg]  # Generic only in its stubs.
        def get_internal_type(self) -> str:
            return "Shape"

    class Drawing(models.Model):
        shape = Shape()

        class Meta:
            app_label = "inventory"

        def __str__(self) -> str:
            return "drawing"

    with pytest.raises(ImproperlyConfigured, match=r"Drawing\.shape is a Shape, which the event loop"):
        check_field_types([Drawing])
