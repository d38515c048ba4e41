"""The whole list of checks, and running it."""

from collections.abc import Iterator

from petstore.conformance import quota, reading, refusals, writing
from petstore.conformance.checks import Check, Outcome, Result
from petstore.conformance.findings import BrokenError, NothingToCheckError, NotRunError
from petstore.conformance.session import Session

# In the order in which they run: the last look at every answer that the others got.
CHECKS = [
    found
    for module in (reading, refusals, writing, quota)
    for found in vars(module).values()
    if isinstance(found, Check)
]


def chosen(*, write: bool) -> list[Check]:
    return [check for check in CHECKS if write or not check.writes]


def run(session: Session, *, write: bool) -> Iterator[Result]:
    """Run the checks one by one. Raises UnreachableError where no answer comes."""
    for check in chosen(write=write):
        yield run_one(check, session)


def run_one(check: Check, session: Session) -> Result:
    try:
        check.look(session)
    except BrokenError as error:
        return Result(check, Outcome.FAILED, str(error))
    except NothingToCheckError as error:
        return Result(check, Outcome.SKIPPED, str(error))
    except NotRunError as error:
        return Result(check, Outcome.NOT_RUN, str(error))
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # A body of another shape.
        return Result(check, Outcome.FAILED, f"An answer has an unexpected shape: {error!r}.")
    return Result(check, Outcome.PASSED)
