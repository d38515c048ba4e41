"""Random histories of an account: D21-D24, D26 and D39 hold for every sequence of requests and changes."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.models import PlanCode
from accounts.quota.limits import DAY, HOUR, MINUTE, SECOND, SKEW, RateLimitDecision, Window
from tests.support.quota import Sender
from tests.support.thorough import times

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 30)),
        st.tuples(st.just("wait"), st.integers(0, 90 * SECOND)),
        st.tuples(st.just("wait"), st.integers(0, 2 * DAY)),
        st.tuples(st.just("wait"), st.sampled_from([MINUTE - 1, MINUTE, MINUTE + 1])),
        st.tuples(st.just("set clock back"), st.sampled_from([1, SKEW, SKEW + SECOND, HOUR, HOUR + 1])),
        st.tuples(st.just("wait for midnight"), st.integers(-2, 2)),
        st.tuples(st.just("wait for retry"), st.booleans()),
        st.tuples(st.just("set limits"), st.tuples(st.integers(1, 30), st.integers(1, 60))),
        st.tuples(st.just("send with the other key"), st.integers(1, 10)),
    ),
    min_size=1,
    max_size=25,
)


class Ledger:
    """Checks what a client observes after each request against the rules."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        self.limits = (sender.per_minute, sender.per_day)
        self.decision: RateLimitDecision | None = None
        self.key = 0
        self.tolerance = 0  # Windows may end this much later once the clock was set back.

    def send(self, key: int = 0) -> RateLimitDecision:
        before = self.decision
        self.key = key
        decision = self.sender.send(key)
        if before is not None or not self.tolerance:
            for index, window in enumerate(decision.windows):
                previous = before.windows[index] if before is not None else None
                self.check_window(window, self.limits[index], decision, previous)
        assert decision.reported_window.remaining <= min(window.remaining for window in decision.windows)
        if decision.admitted:
            assert not decision.banned
        else:
            assert decision.reported_window.remaining == 0
            assert decision.retry_after >= 1
            assert decision.reported_window.reset * SECOND > decision.now
        self.decision = decision
        return decision

    def peek_and_send(self, key: int = 0) -> None:
        """Check that a peek and a request at the same time differ only by this request (D39)."""
        _, peeked = self.sender.peek(key)
        sent = self.send(key)
        assert peeked.admitted
        for before, after in zip(peeked.windows, sent.windows, strict=True):
            assert before._replace(used=before.used + sent.admitted) == after
        assert sent.admitted == (not peeked.banned and all(window.remaining for window in peeked.windows))
        assert not peeked.banned or peeked.banned_until == sent.banned_until

    def set_clock_back(self, by: int) -> None:
        """Forget the last response: a small difference keeps the windows, and a large one shortens them."""
        self.sender.now -= by
        self.decision, self.tolerance = None, HOUR

    def check_window(
        self, window: Window, limit: int, decision: RateLimitDecision, before: Window | None
    ) -> None:
        """Check that the window is that of the last request or has started since."""
        assert window.limit == limit
        assert decision.now < window.ends_at <= decision.now + window.length + self.tolerance
        continues = before is not None and before.ends_at > decision.now and before.used > 0
        used = before.used if before is not None and continues else 0
        assert window.used == used + decision.admitted
        if decision.admitted:
            assert used < limit
        if continues and before is not None:
            assert window.ends_at == before.ends_at

    def wait_for_retry(self, *, until_reset: bool) -> None:
        """Check that the next request is admitted after the wait that a rejection announced."""
        decision = self.decision
        if decision is None or decision.admitted:
            return
        if tuple(window.limit for window in decision.windows) != self.limits:
            return  # A plan change may have made the wait shorter or longer since.
        if until_reset:
            self.sender.now = decision.reported_window.reset * SECOND
        else:
            self.sender.now = decision.now + decision.retry_after * SECOND
        assert self.send(self.key).admitted

    def set_limits(self, per_minute: int, per_day: int) -> None:
        self.sender.account.assign(PlanCode.ENTERPRISE, per_minute, per_day)
        self.limits = (per_minute, per_day)


def run_steps(steps: list[tuple[str, Any]], start: int) -> None:
    sender = Sender(per_minute=5, per_day=20, now=start)
    sender.add_key()
    ledger = Ledger(sender)
    for name, value in steps:
        match name:
            case "send" | "send with the other key":
                key = int(name != "send")
                ledger.peek_and_send(key)
                for _ in range(value - 1):
                    ledger.send(key)
            case "wait":
                sender.now += value
            case "wait for midnight":
                sender.now = max(sender.now, (sender.now // DAY + 1) * DAY + value)
            case "set clock back":
                ledger.set_clock_back(value)
            case "wait for retry":
                ledger.wait_for_retry(until_reset=value)
            case "set limits":
                ledger.set_limits(*value)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=times(60, 15)
)
@given(steps=STEPS, start=st.integers(20_800 * DAY, 20_801 * DAY))
def test_random_histories_of_an_account_keep_the_rules(
    db: None, steps: list[tuple[str, Any]], start: int
) -> None:
    run_steps(steps, start)
