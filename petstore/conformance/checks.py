"""What a check is, its result, and carrying it out."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from petstore.conformance.client import BrokenError
from petstore.conformance.session import NotRunError, Session

SECTION = re.compile(r'contract, "([^"]+)"')
DECISION = re.compile(r"\bD[0-9]+\b")


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_RUN = "not run"


class NothingToCheckError(Exception):
    """The deployment has nothing to check this on, for example no pets. That is no fault."""


OUTCOMES = {
    BrokenError: Outcome.FAILED,
    NothingToCheckError: Outcome.SKIPPED,
    NotRunError: Outcome.NOT_RUN,
}


@dataclass(frozen=True)
class Check:
    """One rule of the contract, and the function that looks at it."""

    name: str
    rule: str  # Decisions by number, sections of the contract by name, as everywhere: see `places`.
    title: str
    look: Callable[[Session], None]
    writes: bool

    @property
    def places(self) -> list[str]:
        """Where the rule can be read, such as `docs/decisions.md#d9`."""
        sections = [name.lower().replace(" ", "-") for name in SECTION.findall(self.rule)]
        return [f"docs/contract.md#{section}" for section in sections] + [
            f"docs/decisions.md#{number.lower()}" for number in DECISION.findall(self.rule)
        ]

    def run(self, session: Session) -> "Result":
        """Carry it out. Raises UnreachableError where no response comes."""
        try:
            self.look(session)
        except tuple(OUTCOMES) as error:
            return Result(self, OUTCOMES[type(error)], str(error))
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # A body of another shape.
            return Result(self, Outcome.FAILED, f"An answer has an unexpected shape: {error!r}.")
        return Result(self, Outcome.PASSED, "")


class Result(NamedTuple):
    check: Check
    outcome: Outcome
    detail: str


def check(rule: str, *, writes: bool = False) -> Callable[[Callable[[Session], None]], Check]:
    """Make a check of a function, which raises BrokenError where its docstring does not hold."""

    def make(look: Callable[[Session], None]) -> Check:
        return Check(look.__name__, rule, (look.__doc__ or "").strip().rstrip("."), look, writes)

    return make
