"""What every quota store promises: one call proves a key, and counts the request or shows what is left."""

from typing import NamedTuple, Protocol

from accounts.keys.identity import Caller
from accounts.keys.key_format import KeyText
from accounts.quota.key_record import KeyRefusal
from accounts.quota.limits import RateLimitDecision
from petstore.api.client_ip import Address


class Admission(NamedTuple):
    """The answer about a key: either a refusal, or its holder and the decision on this request."""

    refusal: KeyRefusal | None = None
    caller: Caller | None = None
    decision: RateLimitDecision | None = None


class QuotaStore(Protocol):
    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """Prove the key; if it is valid, admit the request and count it in both windows, or refuse it.

        A refused request counts in no window (D21), but may be a strike (D26). Exact under any concurrency.
        `now` is in microseconds since the epoch; without it the store's own clock tells the time.
        `writes`: the request may write, which the account's next requests are told (Caller.since_write).
        """

    def look(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """Prove the key; if it is valid, return both windows and the ban as they are (D39).

        The next request, sent at the same moment, finds what this tells. It counts in neither window and is
        no strike. A key has LOOKS_PER_MINUTE of its own, exact under any concurrency: the decision on one
        beyond has that limit alone. The caller has the facts of its key.
        """
