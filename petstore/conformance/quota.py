"""Checks of every answer that came, the numbers of the quota above all. They send nothing."""

import re
from itertools import pairwise

from petstore.conformance.answers import BrokenError, NothingToCheckError
from petstore.conformance.checks import check
from petstore.conformance.contract import WINDOW, check_is_error
from petstore.conformance.session import Session

SLACK_SECONDS = 2  # Between two clocks, and between a header and the answer's Date.
POLICY = re.compile(r'"(\w+)";q=(\d+);w=\d+')
WINDOW_OF = ("Limit", "Reset")  # Two answers that agree in these tell of the same window.
REFUSALS = {"rate_limit_exceeded", "daily_quota_exceeded", "api_key_banned"}


@check('The contract, "Rate limit headers"; D23')
def every_answer_tells_the_quota(session: Session) -> None:
    """Every answer has the three X-RateLimit headers, which agree with RateLimit and RateLimit-Policy."""
    for answer in session.answers:
        limit, remaining = answer.number("X-RateLimit-Limit"), answer.number("X-RateLimit-Remaining")
        reset = answer.number("X-RateLimit-Reset")
        policy = {name: int(quota) for name, quota in POLICY.findall(answer.header("RateLimit-Policy"))}
        windows = {name: (int(r), int(t)) for name, r, t in WINDOW.findall(answer.header("RateLimit"))}
        answer.expect(windows and windows.keys() == policy.keys(), "RateLimit lacks a window.")
        if answer.status == 429:
            continue  # A ban is no window; see refusal_says_when_to_come_back.
        least = min(left for left, _ in windows.values())
        answer.expect(remaining == least, f"{remaining} remain, but the least window has {least}.")
        shown = [name for name, (left, _) in windows.items() if left == least and policy[name] == limit]
        answer.expect(shown, f"X-RateLimit-Limit {limit} is not that window's.")
        ends = [answer.now + windows[name][1] for name in shown]
        near = any(abs(reset - end) <= SLACK_SECONDS for end in ends)
        answer.expect(near, f"X-RateLimit-Reset {reset} is not when that window ends.")


@check("D21, D39")
def every_request_costs(session: Session) -> None:
    """Within a window each request with the key leaves less than the one before; `getAccount` need not."""
    pairs = 0
    for before, after in pairwise(answer for answer in session.answers if answer.keyed):
        if 429 in {before.status, after.status}:
            continue
        windows = [[one.number(f"X-RateLimit-{name}") for name in WINDOW_OF] for one in (before, after)]
        if windows[0] == windows[1]:
            pairs += 1
            left, then = (answer.number("X-RateLimit-Remaining") for answer in (before, after))
            most = left if after.sent.endswith("/account") else left - 1  # D39
            after.expect(then <= most, f"{then} remain, and {left} did one request before.")
    if not pairs:
        raise NothingToCheckError("No two requests came in one window.")


@check("D24")
def refusal_says_when_to_come_back(session: Session) -> None:
    """A 429 has no requests left, Retry-After of at least a second, and Reset at the same moment."""
    refusals = [answer for answer in session.answers if answer.status == 429]
    if not refusals:
        raise NothingToCheckError("No request was refused, and none is made to be.")
    for answer in refusals:
        code = answer.json()["code"]
        answer.expect(code in REFUSALS, f"429 has the code {code!r}.")
        wait = answer.number("Retry-After")
        answer.expect(wait >= 1, f"Retry-After is {wait}, less than a second.")
        left = answer.number("X-RateLimit-Remaining")
        answer.expect(left == 0, f"refused, though {left} remain.")
        off = abs(answer.number("X-RateLimit-Reset") - (answer.now + wait))
        answer.expect(off <= SLACK_SECONDS, f"Reset and Retry-After are {off:.0f} s apart.")


@check("D29")
def every_refusal_is_an_error(session: Session) -> None:
    """Every answer of 400 and above is an Error with its own status."""
    for answer in session.answers:
        if answer.status >= 400 and not answer.sent.startswith("HEAD "):
            check_is_error(answer)


@check("D29")
def no_answer_is_a_failure(session: Session) -> None:
    """No answer is a 5xx."""
    for answer in session.answers:
        answer.expect(answer.status < 500, f"answers {answer.status}.")


@check("D29")
def every_answer_has_an_id_of_its_own(session: Session) -> None:
    """Every answer has an X-Request-Id, no two the same unless that was asked for."""
    seen = [answer.header("X-Request-Id") for answer in session.answers]
    repeated = {one for one in seen if seen.count(one) > 1}
    if repeated:
        raise BrokenError(f"Answers share the X-Request-Id {', '.join(sorted(repeated))}.")


@check("D32")
def caches_keep_callers_apart(session: Session) -> None:
    """Every answer varies by Authorization, and every list has an ETag."""
    for answer in session.answers:
        names = {name.strip().lower() for name in answer.header("Vary").split(",")}
        answer.expect("authorization" in names or "*" in names, "Vary lacks Authorization.")
        if answer.status == 200:
            answer.header("ETag")
