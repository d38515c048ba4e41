"""How a check ends that does not pass."""


class BrokenError(Exception):
    """The deployment does not do what the contract says."""


class NothingToCheckError(Exception):
    """The deployment has nothing to check this on, for example no animals. That is no fault."""


class NotRunError(Exception):
    """The check could not be carried out: the quota is low, or the key lacks a scope."""


class UnreachableError(Exception): ...


def expect(holds: object, otherwise: str) -> None:
    """Raise BrokenError with this sentence unless something holds."""
    if not holds:
        raise BrokenError(otherwise)
