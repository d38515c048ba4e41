"""Checking pets before they are added, by the API's own rules. Pure."""

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from rest_framework.serializers import ValidationError

from inventory.fields import Int64Field, NameField, field_of
from inventory.members import PET, REQUIRED, Member
from petstore.backoffice.text import truncate
from petstore.db.names import nfc, search_key

BATCH = 5_000
COLUMNS = [column for member in PET.sent for column in member.columns]
MAIN_COLUMNS = [member.columns[0] for member in PET.sent]
# Of each member that a file must have, the columns that may say it.
NEEDED = [member.columns for member in PET.sent if member.default is REQUIRED]
IN_WORDS = "; ".join(
    " or ".join([f"{main} ({member.in_files})" if member.in_files else main, *others])
    for member in PET.sent
    for main, *others in [member.columns]
)
# Comparing names takes time: of one file, so many unknown ones are compared with so many categories.
MOST_COMPARED, MOST_CATEGORIES, LONGEST_COMPARED = 20, 200, 40

Members = dict[str, Any]  # What a file says of a pet: COLUMNS that are there, any type, and others.
Row = dict[str, Any]  # The attributes of a new pet.

FIELDS = {member.name: field_of(member, sent=True) for member in PET.sent}
NAME, INT64 = NameField(), Int64Field()


class Bad(NamedTuple):
    """Why a line is refused, and what stands there, as `excerpt` returns it."""

    reason: str
    value: str = ""


Records = Iterator[tuple[int, Members | Bad]]


def excerpt(value: Any) -> str:
    """Return a value as a report may show it: short, and without control characters."""
    return truncate(repr(value), 60)


class UnreadableError(Exception):
    """From this line on, nobody can tell what the file says; has the line and the reason."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a line; numbers start from 1."""

    line: int
    reason: str
    value: str


@dataclass(slots=True)
class Report:
    """What checking found. Of the bad lines all are counted, and the first `room` are kept."""

    room: int
    good: int = 0
    bad: int = 0
    problems: list[Problem] = field(default_factory=list)
    readable: bool = True  # To the end.
    remark: str = ""  # What to look at before the good lines are trusted.

    def refuse(self, line: int, bad: Bad) -> None:
        self.bad += 1
        if len(self.problems) < self.room:
            self.problems.append(Problem(line, *bad))


def start_of(name: str) -> str:
    """Return what is compared of a category's name."""
    return search_key(name[:LONGEST_COMPARED])


class Checker:
    """Checks members against the rules and the categories that there are."""

    def __init__(self, categories: dict[str, int]) -> None:
        self.ids = frozenset(categories.values())
        # Blanks around a name in a file mean nothing, nor does its normal form, nor do capitals where they
        # leave one category; but a name as it stands comes first, and of several the oldest.
        self.by_name = categories
        self.by_nfc = {nfc(name.strip()): number for name, number in reversed(categories.items())}
        folded = Counter(map(search_key, self.by_nfc))
        self.by_folded = {
            fold: number for name, number in self.by_nfc.items() if folded[fold := search_key(name)] == 1
        }
        self.folded = {start_of(name): name for name in islice(categories, MOST_CATEGORIES)}
        self.hints: dict[str, str] = {}  # By the start of the unknown name.

    def check(self, members: Members) -> Row | Bad:
        """Return the row to add, or all that is wrong with it."""
        row: Row = {}
        problems: list[str] = []
        values: list[str] = []
        for member in PET.sent:
            # Of a relation the name says it, unless only the id is there.
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
        return Bad(" ".join(problems), ", ".join(values)) if problems else row

    def value(self, member: Member, column: str, value: Any) -> Any:
        """Return a value as the model has it. Raises ValidationError."""
        rules = {"category": self.category, "categoryId": self.category_id}
        field = FIELDS[member.name]
        if value is None and field.allow_null:
            return None
        found = rules.get(column, field.to_internal_value)(value)
        if isinstance(found, str) and "\0" in found:  # The API's parser of JSON refuses it everywhere.
            raise ValidationError("Must have no NUL character.")
        return found

    def category(self, value: Any) -> int:
        if not isinstance(value, str):
            raise ValidationError(NAME.error_messages["type"])
        name = nfc(value.strip())
        found = self.by_name.get(value) or self.by_nfc.get(name) or self.by_folded.get(search_key(name))
        if found is None:
            raise ValidationError(f"No category has the name {excerpt(value)}.{self.hint(value)}")
        return found

    def hint(self, unknown: str) -> str:
        """Return a sentence that names the category that is meant, probably, or nothing."""
        start = start_of(unknown)
        if start not in self.hints and len(self.hints) < MOST_COMPARED:
            near = difflib.get_close_matches(start, self.folded, n=1)
            self.hints[start] = f" Did you mean {excerpt(self.folded[near[0]])}?" if near else ""
        return self.hints.get(start, "")

    def category_id(self, value: Any) -> int:
        number = INT64.to_internal_value(value)
        if number not in self.ids:
            raise ValidationError(f"No category has the id {number}.")
        return number


def good_rows(records: Records, checker: Checker, report: Report) -> Iterator[list[Row]]:
    """Check every record; yield the good rows in batches, the last of which may be empty."""
    rows: list[Row] = []
    try:
        for line, members in records:
            checked = members if isinstance(members, Bad) else checker.check(members)
            if isinstance(checked, Bad):
                report.refuse(line, checked)
                continue
            rows.append(checked)
            report.good += 1
            if len(rows) == BATCH:
                yield rows
                rows = []
    except UnreadableError as error:
        report.readable = False
        line, reason = error.args
        report.refuse(line, Bad(reason))
    yield rows
