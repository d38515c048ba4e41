"""Unicode names and their equality, search, uniqueness and display.

Names are stored as they were sent, and compared in normalization form C (NFC), in which `é` is always one
character (UAX 15). The database computes that form, so no stored copy can be out of date.
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

from petstore.db.folding import fold

NAME_LENGTH = 255
# Categories of invisible characters: controls, format characters, marks without a width, separators.
INVISIBLE_CATEGORIES = {"Cc", "Cf", "Me", "Mn", "Zl", "Zp", "Zs"}
# Invisible characters of other categories: fillers, the blank Braille pattern, default-ignorables, U+FFFC.
BLANKS = re.compile("[\u115f\u1160\u2065\u2800\u3164\uffa0\ufff0-\ufff8\ufffc\U000e0000-\U000e0fff]")
# Embeddings, overrides and isolates, which can reorder the text that follows a name (UAX 9).
BIDI_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Of Japanese, Korean and Chinese.
COMBINED_SCRIPTS = (
    {"CJK", "HIRAGANA", "KATAKANA", "LATIN"}, {"CJK", "HANGUL", "LATIN"}, {"CJK", "BOPOMOFO", "LATIN"},
)  # fmt: skip

Row = TypeVar("Row", bound="UniquelyNamed")


def visible_name(name: str) -> str:
    """Remove bidi controls for display, and represent an invisible name by its first code points."""
    if name and all(is_invisible(character) for character in name):
        code_points = " ".join(f"U+{ord(character):04X}" for character in name[:3])
        return f"(invisible: {code_points})"
    return BIDI_CONTROLS.sub("", name)


def is_invisible(character: str) -> bool:
    return unicodedata.category(character) in INVISIBLE_CATEGORIES or bool(BLANKS.match(character))


def has_mixed_scripts(text: str) -> bool:
    """Whether the letters are of several scripts that no language combines (UTS 39, section 5.2).

    Python lacks the property Script, but the names of letters begin with it.
    """
    letters = filter(str.isalpha, unicodedata.normalize("NFKC", text))
    names = (unicodedata.name(letter, "").split(" ")[0] for letter in letters)
    scripts = {name.partition("-")[0] for name in names} - {"MODIFIER"}
    return len(scripts) > 1 and not any(scripts <= combined for combined in COMBINED_SCRIPTS)


def check_scripts(text: str) -> None:
    """Raise ValidationError for a word of mixed scripts, such as "admin" with a Cyrillic "a"."""
    if any(map(has_mixed_scripts, text.split())):
        raise ValidationError("Write each word in a single script, such as Latin or Cyrillic.")


def to_nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text or "")  # SQL may pass NULL.


def fold_text(text: str) -> str:
    """Normalize and fold case, so that texts can be compared regardless of both."""
    return to_nfc(to_nfc(text).upper())


@CharField.register_lookup
class NormalForm(Transform):
    """Lets `name__nfc=text` compare both sides in NFC."""

    lookup_name = "nfc"
    function = "NORMALIZE"
    bilateral = True


@CharField.register_lookup
class SearchKey(Transform):
    """Lets `name__search_key__contains=text` ignore case and normalization form."""

    lookup_name = "search_key"
    function = "SEARCH_KEY"
    bilateral = True

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = fold("NORMALIZE(%(expressions)s)")
        return self.as_sql(compiler, connection, template=template, **context)


@receiver(connection_created)
def add_functions(connection: Any, **_: Any) -> None:
    """Add the functions to SQLite, whose UPPER and LIKE only support ASCII."""
    if connection.vendor == "sqlite":
        connection.connection.create_function("NORMALIZE", 1, to_nfc, deterministic=True)
        connection.connection.create_function("SEARCH_KEY", 1, fold_text, deterministic=True)


def lock_names(table: str) -> None:
    """Let one transaction at a time add names to a table."""
    if connection.vendor == "postgresql":  # SQLite allows only one writer at a time.
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [table])


def find_by_name(queryset: QuerySet[Row], name: str) -> Row | None:
    """Return the row with this name. If several rows share it, prefer an exact match, then the oldest."""
    rows = queryset.filter(name__nfc=name).order_by("pk")
    return min(rows, key=lambda row: row.name != name, default=None)


class UniquelyNamed(models.Model):
    """A model whose name is unique in NFC.

    Older rows may share a name, which rules out a database constraint. Instead, new names are checked under
    a lock. Existing duplicates remain valid, and `check_duplicate_names` lists them.
    """

    name = CharField(max_length=NAME_LENGTH, unique=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return visible_name(self.name)

    def validate_unique(self, exclude: Any = None) -> None:
        super().validate_unique(exclude)
        if "name" not in (exclude or ()) and (duplicate_id := self.find_duplicate()):
            kind = str(self._meta.verbose_name).capitalize()
            message = f"{kind} {duplicate_id} has this name already, in another Unicode form."
            raise ValidationError({"name": f"{message} Choose another name."})

    def save(self, *args: Any, **options: Any) -> None:
        """Raise IntegrityError if a new or changed name is that of another row."""
        with transaction.atomic(savepoint=False):
            if "name" in (options.get("update_fields") or ["name"]):
                lock_names(self._meta.db_table)
                if duplicate_id := self.find_duplicate():
                    raise IntegrityError(f"{self._meta.label} {duplicate_id} has the same name in NFC.")
            super().save(*args, **options)

    def find_duplicate(self) -> int | None:
        """Return the ID of another row with this name. None if this row is already stored with it."""
        duplicates = type(self)._base_manager.filter(name__nfc=self.name).order_by("pk")
        ids = list(duplicates.values_list("pk", flat=True))
        return ids[0] if ids and self.pk not in ids else None


@checks.register(checks.Tags.database)
def check_duplicate_names(app_configs: Any, databases: Any, **_: Any) -> list[checks.CheckMessage]:
    """Warn about rows that share a name. Runs with `check --database default` and `migrate`."""
    warnings: list[checks.CheckMessage] = []
    tables = connection.introspection.table_names() if "default" in (databases or ()) else []
    for model in apps.get_models():
        if issubclass(model, UniquelyNamed) and model._meta.db_table in tables:
            spellings = defaultdict(list)
            for pk, name in model._base_manager.order_by("pk").values_list("pk", "name"):
                spellings[to_nfc(name)].append(f"{pk} ({name!a})")
            kind = str(model._meta.verbose_name_plural).capitalize()
            hint = "They remain usable. Rename all but one in the back office."
            warnings += [
                checks.Warning(
                    f"{kind} with the same name: {', '.join(rows)}.", hint=hint, id="petstore.W001"
                )
                for rows in spellings.values()
                if len(rows) > 1
            ]
    return warnings


@checks.register(checks.Tags.database)
def check_encoding(databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Require the encoding UTF8, without which PostgreSQL does not normalize names."""
    if connection.vendor != "postgresql" or "default" not in (databases or ()):
        return []
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_encoding")
        encoding = cursor.fetchone()[0]
    message = f"The database has the encoding {encoding}, not UTF8."
    hint = "Create another with CREATE DATABASE petstore ENCODING 'UTF8' TEMPLATE template0."
    return [] if encoding == "UTF8" else [checks.Error(message, hint=hint, id="petstore.E001")]
