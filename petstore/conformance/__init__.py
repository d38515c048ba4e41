"""Checks of any deployment against the contract, from outside: over HTTP, with nothing but a key."""

from petstore.conformance import following, quota, reading, refusals, writing
from petstore.conformance.checks import Check

# In the order in which they run: the last look at every answer that the others got.
CHECKS = [
    found
    for module in (reading, refusals, writing, following, quota)
    for found in vars(module).values()
    if isinstance(found, Check)
]
