"""The QuotaStore protocol and its result."""

from typing import NamedTuple, Protocol

from accounts.keys.identity import Caller
from accounts.keys.key_format import ParsedKey
from accounts.quota.key_record import KeyRejectionReason
from accounts.quota.limits import RateLimitDecision
from petstore.api.client_ip import Address


class QuotaResult(NamedTuple):
    """Either the reason the key was rejected, or the authenticated caller and the rate-limit decision."""

    rejection: KeyRejectionReason | None = None
    caller: Caller | None = None
    decision: RateLimitDecision | None = None


class QuotaStore(Protocol):
    def admit(
        self, key: ParsedKey, address: Address, now: int | None = None, *, may_write: bool = False
    ) -> QuotaResult:
        """Authenticate the key, then decide on the request and count it in one atomic step.

        `now` is in microseconds since the epoch and defaults to the current time. If `may_write` is true,
        Caller.time_since_write restarts for the account, unless the store is the database.
        """

    def peek(self, key: ParsedKey, address: Address, now: int | None = None) -> QuotaResult:
        """Authenticate the key, and read both windows and the ban without counting in the windows (D39).

        Peeks are limited to PEEKS_PER_MINUTE per key. The decision on a rejected peek has only that window.
        The caller includes its key record.
        """
