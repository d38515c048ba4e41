"""Validation of imported pets by the API's own rules, without a database."""

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from rest_framework.serializers import ValidationError

from inventory.fields import Int64Field, NameField, serializer_field
from inventory.members import PET, REQUIRED, Member
from petstore.backoffice.text import truncate
from petstore.db.names import fold_text, to_nfc

BATCH = 5_000
COLUMNS = [column for member in PET.writable for column in member.columns]
MAIN_COLUMNS = [member.columns[0] for member in PET.writable]
# For each required member, its alternative columns.
REQUIRED_COLUMNS = [member.columns for member in PET.writable if member.default is REQUIRED]
COLUMNS_HELP = "; ".join(
    " or ".join([f"{main} ({member.file_help})" if member.file_help else main, *others])
    for member in PET.writable
    for main, *others in [member.columns]
)
# Comparing names is slow, so a file gets a limited number of suggestions.
MAX_HINTS, MAX_COMPARED_CATEGORIES, MAX_COMPARED_LENGTH = 20, 200, 40

Members = dict[str, Any]  # The values of a record by column or member name, not validated.
Row = dict[str, Any]  # The attributes of a new pet.

FIELDS = {member.name: serializer_field(member, for_input=True) for member in PET.writable}
NAME, INT64 = NameField(), Int64Field()


class InvalidRecord(NamedTuple):
    reason: str
    value: str = ""  # As `excerpt` returns it.


Records = Iterator[tuple[int, Members | InvalidRecord]]


def excerpt(value: Any) -> str:
    """Shorten a value for a report, and escape its control characters."""
    return truncate(repr(value), 60)


class UnreadableError(Exception):
    """The file can't be parsed from this line on. Arguments: line and reason."""


@dataclass(frozen=True, slots=True)
class Problem:
    line: int  # From 1.
    reason: str
    value: str


@dataclass(slots=True)
class Report:
    """The result of validation. All bad lines are counted, the first `max_problems` are listed."""

    max_problems: int
    good: int = 0
    bad: int = 0
    problems: list[Problem] = field(default_factory=list)
    readable: bool = True  # False after an UnreadableError.
    remark: str = ""  # A warning about the valid lines.

    def add_problem(self, line: int, invalid: InvalidRecord) -> None:
        self.bad += 1
        if len(self.problems) < self.max_problems:
            self.problems.append(Problem(line, *invalid))


def comparison_key(name: str) -> str:
    return fold_text(name[:MAX_COMPARED_LENGTH])


class Checker:
    """Validates records against the rules of the members and the existing categories."""

    def __init__(self, categories: dict[str, int]) -> None:
        self.ids = frozenset(categories.values())
        # An exact name wins. Otherwise surrounding blanks and the normal form are ignored (the oldest
        # category wins), and then case, if that leaves a single category.
        self.by_name = categories
        self.by_nfc = {to_nfc(name.strip()): number for name, number in reversed(categories.items())}
        folded = Counter(map(fold_text, self.by_nfc))
        self.by_folded = {
            fold: number for name, number in self.by_nfc.items() if folded[fold := fold_text(name)] == 1
        }
        self.candidates = {
            comparison_key(name): name for name in islice(categories, MAX_COMPARED_CATEGORIES)
        }
        self.hints: dict[str, str] = {}  # By the comparison key of the unknown name.

    def check(self, members: Members) -> Row | InvalidRecord:
        row: Row = {}
        problems: list[str] = []
        values: list[str] = []
        for member in PET.writable:
            # A related row's name takes precedence over its id.
            column = next((name for name in member.columns if name in members), member.columns[0])
            try:
                if column in members:
                    row[member.attribute] = self.value(member, column, members[column])
                elif member.default is REQUIRED:
                    raise ValidationError("Is missing.")
                elif member.default is not None:
                    row[member.attribute] = member.default
            except ValidationError as error:
                problems += [f"{column}: {reason}" for reason in error.detail]
                values += [excerpt(members[column])] if column in members else []
        return InvalidRecord(" ".join(problems), ", ".join(values)) if problems else row

    def value(self, member: Member, column: str, value: Any) -> Any:
        """Convert to the model's value. Raises ValidationError."""
        validators = {"category": self.category, "categoryId": self.category_id}
        field = FIELDS[member.name]
        if value is None and field.allow_null:
            return None
        found = validators.get(column, field.to_internal_value)(value)
        if isinstance(found, str) and "\0" in found:  # The API's JSON parser rejects it.
            raise ValidationError("Must have no NUL character.")
        return found

    def category(self, value: Any) -> int:
        if not isinstance(value, str):
            raise ValidationError(NAME.error_messages["type"])
        name = to_nfc(value.strip())
        found = self.by_name.get(value) or self.by_nfc.get(name) or self.by_folded.get(fold_text(name))
        if found is None:
            raise ValidationError(f"No category has the name {excerpt(value)}.{self.hint(value)}")
        return found

    def hint(self, unknown: str) -> str:
        """Suggest a similar category in a sentence; may be empty."""
        key = comparison_key(unknown)
        if key not in self.hints and len(self.hints) < MAX_HINTS:
            similar = difflib.get_close_matches(key, self.candidates, n=1)
            self.hints[key] = f" Did you mean {excerpt(self.candidates[similar[0]])}?" if similar else ""
        return self.hints.get(key, "")

    def category_id(self, value: Any) -> int:
        number = INT64.to_internal_value(value)
        if number not in self.ids:
            raise ValidationError(f"No category has the id {number}.")
        return number


def valid_batches(records: Records, checker: Checker, report: Report) -> Iterator[list[Row]]:
    """Yield the valid rows in batches, the last of which may be empty."""
    rows: list[Row] = []
    try:
        for line, members in records:
            checked = members if isinstance(members, InvalidRecord) else checker.check(members)
            if isinstance(checked, InvalidRecord):
                report.add_problem(line, checked)
                continue
            rows.append(checked)
            report.good += 1
            if len(rows) == BATCH:
                yield rows
                rows = []
    except UnreadableError as error:
        report.readable = False
        line, reason = error.args
        report.add_problem(line, InvalidRecord(reason))
    yield rows
