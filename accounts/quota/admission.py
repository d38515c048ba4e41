"""The interface of the quota stores."""

from typing import NamedTuple, Protocol

from accounts.keys.identity import Caller
from accounts.keys.key_format import KeyText
from accounts.quota.key_record import KeyRejection
from accounts.quota.limits import RateLimitDecision
from petstore.api.client_ip import Address


class Admission(NamedTuple):
    """Either the reason why a key was rejected, or its caller and the decision on the request."""

    rejection: KeyRejection | None = None
    caller: Caller | None = None
    decision: RateLimitDecision | None = None


class QuotaStore(Protocol):
    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """Authenticate the key, decide on the request and count it, all in one atomic step.

        `now` is in microseconds since the epoch and defaults to the store's clock. If `writes` is true, the
        request may write, and restarts Caller.time_since_write for its account.
        """

    def peek(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """Authenticate the key, and read both windows and the ban without counting the request (D39).

        Each key may peek PEEKS_PER_MINUTE times; a rejection has that limit as its only window. The caller
        includes its key record.
        """
