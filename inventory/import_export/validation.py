"""Validation of imported pets by the API's own rules, without a database."""

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from rest_framework.serializers import ValidationError

from inventory.serializer_fields import Int64Field, TextField
from inventory.serializers import NewPetSerializer
from petstore.db.names import NAME_LENGTH, fold_text, to_nfc
from petstore.text import truncate

FIELDS: dict[str, Any] = dict(NewPetSerializer().fields)
# For each field, the columns that may hold its value. The first one is exported.
ALTERNATIVES = {"name": ["name"], "categoryId": ["category", "categoryId"], "status": ["status"]}
COLUMNS = [column for columns in ALTERNATIVES.values() for column in columns]
MAIN_COLUMNS = [columns[0] for columns in ALTERNATIVES.values()]
REQUIRED_COLUMNS = [ALTERNATIVES[name] for name, field in FIELDS.items() if field.required]
COLUMNS_HELP = (
    "name; category (a category's name) or categoryId; status (available, pending or sold; available if it "
    "is left out)"
)

# Comparing names is slow, so the number of suggestions per file is limited.
MAX_SUGGESTIONS = 20
MAX_COMPARED_CATEGORIES = 200
MAX_COMPARED_LENGTH = 40

Record = dict[str, Any]  # Values by column, not validated.
PetAttributes = dict[str, Any]

TEXT_FIELD, INT64_FIELD = TextField(), Int64Field()


class InvalidRecord(NamedTuple):
    reason: str
    value: str = ""  # An excerpt.


Records = Iterator[tuple[int, Record | InvalidRecord]]


def excerpt(value: Any) -> str:
    """Shorten a value for a report, and escape its control characters."""
    return truncate(repr(value), 60)


class UnreadableError(Exception):
    """The file can't be parsed from this line on. Arguments: line number and reason."""


@dataclass(frozen=True, slots=True)
class Problem:
    line: int  # From 1.
    reason: str
    value: str


@dataclass(slots=True)
class Report:
    """The result of validation. It counts all invalid lines and lists the first `max_problems`."""

    max_problems: int
    good_lines: int = 0
    bad_lines: int = 0
    problems: list[Problem] = field(default_factory=list)
    is_readable: bool = True  # False after an UnreadableError.
    warning: str = ""  # Applies to the valid lines.

    def add_problem(self, line: int, invalid: InvalidRecord) -> None:
        self.bad_lines += 1
        if len(self.problems) < self.max_problems:
            self.problems.append(Problem(line, *invalid))


def comparison_key(name: str) -> str:
    return fold_text(name[:MAX_COMPARED_LENGTH])


class Validator:
    """Validates records against the rules of the fields and the existing categories."""

    def __init__(self, category_ids: dict[str, int]) -> None:
        """Take the ids of the categories by name, the oldest category first."""
        self.known_ids = frozenset(category_ids.values())
        self.ids_by_name = category_ids
        # If several names have the same normal form, the oldest category overwrites the others.
        self.ids_by_nfc = {to_nfc(name.strip()): pk for name, pk in reversed(category_ids.items())}
        spellings = Counter(map(fold_text, self.ids_by_nfc))
        self.ids_by_folded_name = {
            fold_text(name): pk for name, pk in self.ids_by_nfc.items() if spellings[fold_text(name)] == 1
        }
        self.names_to_compare = {
            comparison_key(name): name for name in islice(category_ids, MAX_COMPARED_CATEGORIES)
        }
        self.suggestions: dict[str, str] = {}  # By the comparison key of the unknown name.

    def validate(self, record: Record) -> PetAttributes | InvalidRecord:
        attributes: PetAttributes = {}
        reasons: list[str] = []
        excerpts: list[str] = []
        for name, api_field in FIELDS.items():
            columns = ALTERNATIVES[name]  # A category's name takes precedence over its id.
            column = next((column for column in columns if column in record), columns[0])
            try:
                if column in record:
                    attributes[api_field.source] = self.convert(api_field, column, record[column])
                elif api_field.required:
                    raise ValidationError("Is missing.")
                else:
                    attributes[api_field.source] = api_field.default
            except ValidationError as error:
                reasons += [f"{column}: {reason}" for reason in error.detail]
                if column in record:
                    excerpts.append(excerpt(record[column]))
        return InvalidRecord(" ".join(reasons), ", ".join(excerpts)) if reasons else attributes

    def convert(self, api_field: Any, column: str, value: Any) -> Any:
        """Convert to the model's value. Raises ValidationError."""
        converters = {"category": self.find_category, "categoryId": self.check_category_id}
        converted = converters.get(column, api_field.to_internal_value)(value)
        if isinstance(converted, str) and "\0" in converted:  # The API's JSON parser rejects NUL.
            raise ValidationError("Must have no NUL character.")
        return converted

    def find_category(self, value: Any) -> int:
        """Return the id of the category with this name. Raises ValidationError.

        An exact match wins. Otherwise surrounding blanks and the normal form are ignored; and then case,
        unless several categories would match. A name longer than NAME_LENGTH matches none.
        """
        if not isinstance(value, str):
            raise ValidationError(TEXT_FIELD.error_messages["type"])
        pk, name = self.ids_by_name.get(value), value.strip()
        if pk is None and len(name) <= NAME_LENGTH:  # Normalizing takes quadratic time.
            name = to_nfc(name)
            pk = self.ids_by_nfc.get(name) or self.ids_by_folded_name.get(fold_text(name))
        if pk is None:
            raise ValidationError(f"No category has the name {excerpt(value)}.{self.suggest(value)}")
        return pk

    def suggest(self, unknown_name: str) -> str:
        """Suggest a similar category. Returns a sentence, or "" without one or after MAX_SUGGESTIONS."""
        key = comparison_key(unknown_name)
        if key not in self.suggestions and len(self.suggestions) < MAX_SUGGESTIONS:
            matches = difflib.get_close_matches(key, self.names_to_compare, n=1)
            similar = [excerpt(self.names_to_compare[match]) for match in matches]
            self.suggestions[key] = f" Did you mean {similar[0]}?" if similar else ""
        return self.suggestions.get(key, "")

    def check_category_id(self, value: Any) -> int:
        category_id = INT64_FIELD.to_internal_value(value)
        if category_id not in self.known_ids:
            raise ValidationError(f"No category has the id {category_id}.")
        return category_id


def validate(records: Records, category_ids: dict[str, int], report: Report) -> Iterator[PetAttributes]:
    """Yield the valid pets, and add the invalid lines to the report."""
    validator = Validator(category_ids)
    try:
        for line, record in records:
            result = record if isinstance(record, InvalidRecord) else validator.validate(record)
            if isinstance(result, InvalidRecord):
                report.add_problem(line, result)
            else:
                report.good_lines += 1
                yield result
    except UnreadableError as error:
        report.is_readable = False
        line, reason = error.args
        report.add_problem(line, InvalidRecord(reason))
