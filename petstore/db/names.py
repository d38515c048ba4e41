"""Unicode names: equality, search, uniqueness and display.

Names are stored as they were sent and compared in normal form C, in which `é` is always one character (UAX
15). The database computes that form, so no stored copy can be out of date.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from typing import Any, TypeVar

from django.apps import apps
from django.core import checks
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, models, transaction
from django.db.backends.signals import connection_created
from django.db.models import CharField, QuerySet, Transform
from django.dispatch import receiver

NAME_LENGTH = 255
# Invisible characters by category: controls, format characters, marks without a letter, separators ...
INVISIBLE = {"Cc", "Cf", "Me", "Mn", "Zl", "Zp", "Zs"}
# ... and those of other categories: fillers, the blank Braille pattern, unassigned default-ignorables.
BLANKS = re.compile("[\u115f\u1160\u2065\u2800\u3164\uffa0\ufff0-\ufff8\ufffc\U000e0000-\U000e0fff]")
# Embeddings, overrides and isolates, which can reorder the text that follows a name (UAX 9).
BIDI_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")

Row = TypeVar("Row", bound="UniquelyNamed")


def visible_name(name: str) -> str:
    """Remove bidi controls for display, and show an invisible name as code points."""
    if name and all(unicodedata.category(one) in INVISIBLE or BLANKS.match(one) for one in name):
        return f"(invisible: {' '.join(f'U+{ord(one):04X}' for one in name[:3])})"
    return BIDI_CONTROLS.sub("", name)


def to_nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text or "")  # SQL may pass NULL.


def fold_text(text: str) -> str:
    """NFC in upper case."""
    return to_nfc(to_nfc(text).upper())


@CharField.register_lookup
class NormalForm(Transform):
    """`name__nfc=text` compares both in NFC."""

    lookup_name = "nfc"
    function = "NORMALIZE"
    bilateral = True


@CharField.register_lookup
class SearchKey(Transform):
    """`name__search_key__contains=text` ignores case and normal form."""

    lookup_name = "search_key"
    function = "SEARCH_KEY"
    bilateral = True

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="UPPER(NORMALIZE(%(expressions)s))", **context)


@receiver(connection_created)
def add_functions(connection: Any, **_: Any) -> None:
    """Add the functions to SQLite, whose UPPER and LIKE only support ASCII."""
    if connection.vendor == "sqlite":
        connection.connection.create_function("NORMALIZE", 1, to_nfc, deterministic=True)
        connection.connection.create_function("SEARCH_KEY", 1, fold_text, deterministic=True)


def find_by_name(rows: QuerySet[Row], name: str) -> Row | None:
    """Find the row of this name; of several, an exact match or else the oldest."""
    return min(rows.filter(name__nfc=name).order_by("pk"), key=lambda row: row.name != name, default=None)


class UniquelyNamed(models.Model):
    """A model whose name is unique in NFC.

    Older rows may share a name, so there can be no constraint: new names are checked under a lock. Such
    rows keep working, and the check `check_duplicate_names` lists them.
    """

    name = CharField(max_length=NAME_LENGTH, unique=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return visible_name(self.name)

    def validate_unique(self, exclude: Any = None) -> None:
        super().validate_unique(exclude)
        if "name" not in (exclude or ()) and (other := self.find_same_name()):
            kind = str(self._meta.verbose_name).capitalize()
            text = f"{kind} {other} has this name already, in another Unicode form. Choose another name."
            raise ValidationError({"name": text})

    def save(self, *args: Any, **options: Any) -> None:
        """Raise IntegrityError if the name changes to that of another row."""
        with transaction.atomic(savepoint=False):
            if "name" in (options.get("update_fields") or ["name"]):
                if connection.vendor == "postgresql":  # SQLite has one writer.
                    with connection.cursor() as cursor:
                        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [self._meta.db_table])
                if other := self.find_same_name():
                    raise IntegrityError(f"{self._meta.label} {other} has the same name in NFC.")
            super().save(*args, **options)

    def find_same_name(self) -> int | None:
        """Find the id of a row that has this name already, unless this row has it, too."""
        rows = type(self)._base_manager.filter(name__nfc=self.name).order_by("pk")
        ids = list(rows.values_list("pk", flat=True))
        return ids[0] if ids and self.pk not in ids else None


@checks.register(checks.Tags.database)
def check_duplicate_names(app_configs: Any, databases: Any, **_: Any) -> list[checks.CheckMessage]:
    """System check for rows that share a name; runs with `check --database default` and `migrate`."""
    found: list[checks.CheckMessage] = []
    tables = connection.introspection.table_names() if "default" in (databases or ()) else []
    for model in apps.get_models():
        if issubclass(model, UniquelyNamed) and model._meta.db_table in tables:
            spellings = defaultdict(list)
            for pk, name in model._base_manager.order_by("pk").values_list("pk", "name"):
                spellings[to_nfc(name)].append(f"{pk} ({name!a})")
            kind = str(model._meta.verbose_name_plural).capitalize()
            hint = "They keep working. Rename all but one in the back office."
            found += [
                checks.Warning(f"{kind} of one name: {', '.join(rows)}.", hint=hint, id="petstore.W001")
                for rows in spellings.values()
                if len(rows) > 1
            ]
    return found
