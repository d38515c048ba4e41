"""Checking animals before they are added, by the API's own rules. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from inventory.fields import Int64Field, NameField, StatusField
from inventory.import_export.lines import ABSENT, Raw, Records, UnreadableError, shown
from inventory.models import NAME_LENGTH, PetStatus
from petstore.api.int64 import is_int64

BATCH = 5_000

# Name, category id, status.
Row = tuple[str, int, str]

STATUSES = frozenset(PetStatus.values)
NOT_A_NAME = NameField.default_error_messages
NOT_AN_INTEGER = Int64Field.default_error_messages["type"]
NOT_A_STATUS = StatusField.default_error_messages["type"]
MISSING = "Is missing."


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a line; numbers start from 1."""

    line: int
    reason: str


@dataclass(slots=True)
class Report:
    """What checking found. Of the bad lines all are counted, and the first `room` are kept."""

    room: int
    good: int = 0
    bad: int = 0
    problems: list[Problem] = field(default_factory=list)
    readable: bool = True  # To the end.

    def refuse(self, line: int, reason: str) -> None:
        """Count a bad line."""
        self.bad += 1
        if len(self.problems) < self.room:
            self.problems.append(Problem(line, reason))


class Checker:
    """Checks raw values against the rules and the categories that there are."""

    def __init__(self, categories: dict[str, int]) -> None:
        self.ids = frozenset(categories.values())
        # Blanks around a name in a file mean nothing, but a name as it stands comes first.
        self.by_name = {name.strip(): number for name, number in categories.items()} | categories

    def check(self, raw: Raw) -> Row | str:
        """Return the row to add, or all that is wrong with it."""
        name, category, category_id, status = raw
        problems: list[str] = []
        if not isinstance(name, str):
            problems.append(f"name: {MISSING if name is ABSENT else NOT_A_NAME['type']}")
        else:
            name = name.strip()
            if not name:
                problems.append(f"name: {NOT_A_NAME['blank']}")
            elif len(name) > NAME_LENGTH:
                problems.append(f"name: {NOT_A_NAME['length']}")
            elif "\0" in name:
                problems.append("name: Must have no NUL character.")
        number = self.by_name.get(category) if isinstance(category, str) else None
        if number is None:
            if category is ABSENT and self.is_id(category_id):
                number = int(category_id)
            else:
                problems.append(self.no_category(category, category_id))
        if status is ABSENT:
            status = PetStatus.AVAILABLE.value
        elif not isinstance(status, str) or status not in STATUSES:
            problems.append(f"status: {NOT_A_STATUS}")
        if problems:
            return " ".join(problems)
        assert number is not None
        return name, number, status

    def is_id(self, value: Any) -> bool:
        """Tell whether a category has this id. `true` is no number, though Python's bool is an int."""
        return isinstance(value, int | Decimal) and not isinstance(value, bool) and value in self.ids

    def no_category(self, category: Any, category_id: Any) -> str:
        """Return why these name no category."""
        if category is not ABSENT:
            if not isinstance(category, str):
                return "category: Must be a string."
            return f"category: No category has the name {shown(category)}."
        if category_id is ABSENT:
            return f"category: {MISSING}"
        if not is_int64(category_id):
            return f"categoryId: {NOT_AN_INTEGER}"
        return f"categoryId: No category has the id {int(category_id)}."


def good_rows(records: Records, checker: Checker, report: Report) -> Iterator[list[Row]]:
    """Check every record; yield the good rows of each BATCH records, and report the rest."""
    rows: list[Row] = []
    seen = 0
    try:
        for line, raw in records:
            checked = raw if isinstance(raw, str) else checker.check(raw)
            if isinstance(checked, str):
                report.refuse(line, checked)
            else:
                rows.append(checked)
            seen += 1
            if seen == BATCH:
                report.good += len(rows)
                yield rows
                rows, seen = [], 0
    except UnreadableError as error:
        report.readable = False
        report.refuse(error.line, error.reason)
    report.good += len(rows)
    yield rows
