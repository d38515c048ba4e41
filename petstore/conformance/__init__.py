"""Checks of any deployment against the contract, from outside: over HTTP, with nothing but a key."""

from petstore.conformance import rules
from petstore.conformance.checks import Check

# In the order in which they stand there: the last read every response that the others got.
CHECKS = [
    one
    for found in vars(rules).values()
    for one in (found if isinstance(found, list) else [found])
    if isinstance(one, Check)
]
