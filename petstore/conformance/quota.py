"""Checks of every answer that came, the numbers of the quota above all. They send nothing."""

import re
from itertools import pairwise

from petstore.conformance.answers import Answer
from petstore.conformance.checks import check
from petstore.conformance.contract import problem
from petstore.conformance.findings import NothingToCheckError, expect
from petstore.conformance.session import Session

SLACK_SECONDS = 2  # Between two clocks, and between a header and the answer's Date.
WINDOW = re.compile(r'"(\w+)";r=(\d+);t=(\d+)')
POLICY = re.compile(r'"(\w+)";q=(\d+);w=\d+')
REFUSALS = {"rate_limit_exceeded", "daily_quota_exceeded", "api_key_banned"}


@check('The contract, "Rate limit headers"; D23')
def every_answer_tells_the_quota(session: Session) -> None:
    """Every answer has the three X-RateLimit headers, which agree with RateLimit and RateLimit-Policy."""
    for answer in session.answers:
        limit, remaining = answer.number("X-RateLimit-Limit"), answer.number("X-RateLimit-Remaining")
        reset = answer.number("X-RateLimit-Reset")
        policy = {name: int(quota) for name, quota in POLICY.findall(answer.header("RateLimit-Policy"))}
        windows = {name: (int(r), int(t)) for name, r, t in WINDOW.findall(answer.header("RateLimit"))}
        expect(windows and windows.keys() == policy.keys(), f"{answer.sent}: RateLimit lacks a window.")
        if answer.status == 429:
            continue  # A ban is no window; see refusal_says_when_to_come_back.
        least = min(left for left, _ in windows.values())
        expect(remaining == least, f"{answer.sent}: {remaining} remain, but the least window has {least}.")
        shown = [name for name, (left, _) in windows.items() if left == least and policy[name] == limit]
        expect(shown, f"{answer.sent}: X-RateLimit-Limit {limit} is not that window's.")
        ends = [answer.now + windows[name][1] for name in shown]
        near = any(abs(reset - end) <= SLACK_SECONDS for end in ends)
        expect(near, f"{answer.sent}: X-RateLimit-Reset {reset} is not when that window ends.")


@check("D21")
def every_request_costs(session: Session) -> None:
    """Within a window each request with the key leaves less than the one before."""
    pairs = 0
    for before, after in pairwise(answer for answer in session.answers if answer.keyed):
        if 429 in {before.status, after.status}:
            continue
        if all(same(before, after, name) for name in ("X-RateLimit-Limit", "X-RateLimit-Reset")):
            pairs += 1
            left, then = (answer.number("X-RateLimit-Remaining") for answer in (before, after))
            expect(then < left, f"{after.sent}: {then} remain, and {left} did one request before.")
    if not pairs:
        raise NothingToCheckError("No two requests came in one window.")


def same(one: Answer, other: Answer, name: str) -> bool:
    """Tell whether two answers have the same number in a header."""
    return one.number(name) == other.number(name)


@check("D24")
def refusal_says_when_to_come_back(session: Session) -> None:
    """A 429 has no requests left, Retry-After of at least a second, and Reset at the same moment."""
    refusals = [answer for answer in session.answers if answer.status == 429]
    if not refusals:
        raise NothingToCheckError("No request was refused, and none is made to be.")
    for answer in refusals:
        code = answer.json()["code"]
        expect(code in REFUSALS, f"{answer.sent}: 429 has the code {code!r}.")
        wait = answer.number("Retry-After")
        expect(wait >= 1, f"{answer.sent}: Retry-After is {wait}, less than a second.")
        left = answer.number("X-RateLimit-Remaining")
        expect(left == 0, f"{answer.sent}: refused, though {left} remain.")
        off = abs(answer.number("X-RateLimit-Reset") - (answer.now + wait))
        expect(off <= SLACK_SECONDS, f"{answer.sent}: Reset and Retry-After are {off:.0f} s apart.")


@check("D29")
def every_refusal_is_an_error(session: Session) -> None:
    """Every answer of 400 and above is an Error with its own status."""
    for answer in session.answers:
        if answer.status >= 400 and not answer.sent.startswith("HEAD "):
            found = problem({"$ref": "#/components/schemas/Error"}, answer.json())
            expect(not found, f"{answer.sent}: the body is no Error. {found[:300]}")
            status = answer.json()["status"]
            expect(status == answer.status, f"{answer.sent}: the body says {status}, not {answer.status}.")


@check("D29")
def no_answer_is_a_failure(session: Session) -> None:
    """No answer is a 5xx."""
    for answer in session.answers:
        expect(answer.status < 500, f"{answer.sent}: answers {answer.status}.")


@check("D29")
def every_answer_has_an_id_of_its_own(session: Session) -> None:
    """Every answer has an X-Request-Id, no two the same unless that was asked for."""
    seen = [answer.header("X-Request-Id") for answer in session.answers]
    repeated = {one for one in seen if seen.count(one) > 1}
    expect(not repeated, f"Answers share the X-Request-Id {', '.join(sorted(repeated))}.")


@check("D32")
def caches_keep_callers_apart(session: Session) -> None:
    """Every answer varies by Authorization, and every list has an ETag."""
    for answer in session.answers:
        names = {name.strip().lower() for name in answer.header("Vary").split(",")}
        expect("authorization" in names or "*" in names, f"{answer.sent}: Vary lacks Authorization.")
        if answer.status == 200:
            answer.header("ETag")
