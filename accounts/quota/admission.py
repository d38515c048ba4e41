"""The interface of the quota stores."""

from typing import NamedTuple, Protocol

from accounts.keys.identity import Caller
from accounts.keys.key_format import KeyText
from accounts.quota.key_record import KeyRejection
from accounts.quota.limits import RateLimitDecision
from petstore.api.client_ip import Address


class Admission(NamedTuple):
    """Either a rejection of the key, or its caller and the decision on the request."""

    rejection: KeyRejection | None = None
    caller: Caller | None = None
    decision: RateLimitDecision | None = None


class QuotaStore(Protocol):
    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """Authenticate the key, then decide on the request and count it, atomically.

        `now` is in microseconds since the epoch and defaults to the store's clock. `writes`: the request
        may write, so that Caller.time_since_write of the account's next requests starts from it.
        """

    def peek(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """Authenticate the key and read both windows and the ban without counting the request (D39).

        Limited to PEEKS_PER_MINUTE per key: beyond that, the decision is a rejection with that limit as its
        only window. The caller comes with its key record.
        """
