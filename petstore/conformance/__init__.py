"""Checks of any deployment against the contract, from outside: over HTTP, with nothing but a key."""

from types import ModuleType

from petstore.conformance import reading, refusals, responses, writing
from petstore.conformance.checks import Check


def checks(module: ModuleType) -> list[Check]:
    return [found for found in vars(module).values() if isinstance(found, Check)]


# In the order in which they run: the last read every response that the others got.
CHECKS = checks(reading) + refusals.REFUSALS + checks(refusals) + checks(writing) + checks(responses)
