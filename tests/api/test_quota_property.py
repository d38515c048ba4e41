"""Random histories of an account: D21-D24 and D26 hold for every sequence of requests and changes."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.models import PlanCode
from accounts.quota.limits import DAY, SECOND, RateLimitDecision, Window
from tests.support.quota import Sender
from tests.support.thorough import times

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 30)),
        st.tuples(st.just("wait"), st.integers(0, 90 * SECOND)),
        st.tuples(st.just("wait long"), st.integers(0, DAY)),
        st.tuples(st.just("wait for retry"), st.booleans()),
        st.tuples(st.just("set limits"), st.tuples(st.integers(1, 30), st.integers(1, 60))),
        st.tuples(st.just("other key"), st.integers(1, 10)),
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

    def send(self, key: int = 0) -> RateLimitDecision:
        before = self.decision
        self.key = key
        decision = self.sender.send(key)
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

    def check_window(
        self, window: Window, limit: int, decision: RateLimitDecision, before: Window | None
    ) -> None:
        """Check that the window is that of the last request or has started since."""
        assert window.limit == limit
        assert decision.now < window.ends_at <= decision.now + window.length
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
    """Take these steps with one account."""
    sender = Sender(per_minute=5, per_day=20, now=start)
    sender.add_key()
    ledger = Ledger(sender)
    for name, value in steps:
        match name:
            case "send":
                for _ in range(value):
                    ledger.send()
            case "other key":
                for _ in range(value):
                    ledger.send(1)
            case "wait" | "wait long":
                sender.now += value
            case "wait for retry":
                ledger.wait_for_retry(until_reset=value)
            case "set limits":
                ledger.set_limits(*value)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=times(40, 12)
)
@given(steps=STEPS, start=st.integers(20_800 * DAY, 20_801 * DAY))
def test_random_histories_of_an_account_keep_the_rules(
    db: None, steps: list[tuple[str, Any]], start: int
) -> None:
    run_steps(steps, start)
