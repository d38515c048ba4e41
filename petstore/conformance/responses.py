"""Checks of every response that came, the numbers of the quota above all. They send nothing."""

import re
from itertools import pairwise

from petstore.conformance.checks import NothingToCheckError, check
from petstore.conformance.client import BrokenError
from petstore.conformance.document import expect_documented, expect_error, operation_of
from petstore.conformance.session import Session

SLACK_SECONDS = 2  # Between two clocks, and between a header and the response's Date.
POLICY = re.compile(r'"(\w+)";q=(\d+);w=\d+')  # In RateLimit-Policy (D28).
NUMBERS = ("Limit", "Remaining", "Reset")  # Of X-RateLimit.
WINDOW = re.compile(r'"(\w+)";r=(\d+);t=(\d+)')  # In RateLimit (D28).


@check('The contract, "Endpoints"; D29')
def every_answer_is_documented(session: Session) -> None:
    """Every answer is one that the OpenAPI document gives to its operation; every refusal is an Error."""
    faults: dict[str, str] = {}  # The first of each operation.
    for response in session.responses:
        operation = operation_of(response)
        try:
            if operation:
                expect_documented(response, operation)
            if response.status >= 400 and not response.request.startswith("HEAD "):
                expect_error(response)
        except BrokenError as error:
            faults.setdefault(operation.get("operationId", ""), str(error))
    if faults:
        raise BrokenError(" ".join(faults.values()))


@check("D29")
def no_answer_is_a_failure(session: Session) -> None:
    """No answer is a 5xx."""
    for response in session.responses:
        response.expect(response.status < 500, f"answers {response.status}.")


@check('The contract, "Rate limit headers"; D23')
def every_answer_tells_the_quota(session: Session) -> None:
    """Every answer has the three X-RateLimit headers, which agree with RateLimit and RateLimit-Policy."""
    for response in session.responses:
        limit, remaining, reset = (int(response.header(f"X-RateLimit-{name}")) for name in NUMBERS)
        policy = {name: int(quota) for name, quota in POLICY.findall(response.header("RateLimit-Policy"))}
        windows = {name: (int(r), int(t)) for name, r, t in WINDOW.findall(response.header("RateLimit"))}
        response.expect(windows and windows.keys() == policy.keys(), "RateLimit lacks a window.")
        if response.status == 429:
            continue  # A ban is no window; see refusal_says_when_to_come_back.
        least = min(left for left, _ in windows.values())
        response.expect(remaining == least, f"{remaining} remain, but the least window has {least}.")
        shown = [name for name, (left, _) in windows.items() if left == least and policy[name] == limit]
        response.expect(shown, f"X-RateLimit-Limit {limit} is not that window's.")
        near = any(abs(reset - response.now - windows[name][1]) <= SLACK_SECONDS for name in shown)
        response.expect(near, f"X-RateLimit-Reset {reset} is not when that window ends.")


@check("D21, D39")
def every_request_costs(session: Session) -> None:
    """Within a window each request with the key leaves less than the one before; `getAccount` need not."""
    pairs = 0
    for before, after in pairwise(session.keyed):
        numbers = [[int(one.header(f"X-RateLimit-{name}")) for name in NUMBERS] for one in (before, after)]
        (limit, left, reset), (limit_after, left_after, reset_after) = numbers
        if (limit, reset) == (limit_after, reset_after) and after.status != 429:
            pairs += 1
            most = left if after.request == "GET /account" else left - 1  # D39
            after.expect(left_after <= most, f"{left_after} remain, and {left} did one request before.")
    if not pairs:
        raise NothingToCheckError("No two requests came in one window.")


@check("D24")
def refusal_says_when_to_come_back(session: Session) -> None:
    """A 429 has no requests left, Retry-After of at least a second, and Reset at the same moment."""
    rejected = [response for response in session.responses if response.status == 429]
    if not rejected:
        raise NothingToCheckError("No request was refused, and none is made to be.")
    for response in rejected:
        wait = int(response.header("Retry-After"))
        response.expect(wait >= 1, f"Retry-After is {wait}, less than a second.")
        left = int(response.header("X-RateLimit-Remaining"))
        response.expect(left == 0, f"refused, though {left} remain.")
        off = abs(int(response.header("X-RateLimit-Reset")) - (response.now + wait))
        response.expect(off <= SLACK_SECONDS, f"Reset and Retry-After are {off:.0f} s apart.")


@check("D29")
def every_answer_has_an_id_of_its_own(session: Session) -> None:
    """Every answer has an X-Request-Id, no two the same unless that was asked for."""
    seen: set[str] = set()
    for response in session.responses:
        request_id = response.header("X-Request-Id")
        response.expect(request_id not in seen, f"the X-Request-Id {request_id} was another answer's.")
        seen.add(request_id)


@check("D32")
def caches_keep_callers_apart(session: Session) -> None:
    """Every answer varies by Authorization."""
    for response in session.responses:
        names = {name.strip().lower() for name in response.header("Vary").split(",")}
        response.expect(names & {"authorization", "*"}, "Vary lacks Authorization.")
