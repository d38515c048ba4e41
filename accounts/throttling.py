"""From a quota verdict to a 429."""

from django.http import HttpRequest

from accounts import refusing
from accounts.caller import Caller
from accounts.limits import DAY, Verdict
from accounts.quota import anonymous
from accounts.usage import write_behind
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.passage import Passage
from petstore.observability.metrics import decision


def throttle(request: HttpRequest, passage: Passage) -> None:
    """Refuse what is over the limit with ApiError 429; a step of the gate.

    With a valid key the request was counted for its account when the key was proved; without one it counts
    for its client's address now. One with a key that nobody could look up, because the database is away,
    counts for nobody.
    """
    caller, verdict = passage.caller, passage.verdict
    if caller is None:
        if verdict is not None:  # The key's own failure is the answer.
            return
        verdict = passage.verdict = anonymous.take(request)
    assert isinstance(verdict, Verdict)
    counts_for = "address" if caller is None else "key" if passage.operation.free else "account"
    decision("admitted" if verdict.admitted else verdict.refusal.value, counts_for)()
    if not verdict.admitted:
        if caller is not None and counts_for == "account":  # Else it is no strike (D39).
            refusing.note(request, passage, caller.public_id, verdict.refusal.value, verdict=verdict)
        raise refusal(verdict)
    deprecation = passage.operation.deprecation
    if isinstance(caller, Caller) and counts_for == "account" and deprecation is not None:
        write_behind.recorder.call_deprecated(caller, deprecation.operation, verdict.now)


def refusal(verdict: Verdict) -> ApiError:
    """Return the 429: it names what refused, the limit, and the wait."""
    seconds = verdict.retry_after
    wait = f"Try again in {seconds} {'second' if seconds == 1 else 'seconds'}."
    if verdict.refusal is ErrorCode.API_KEY_BANNED:
        message = f"This API key is banned because it kept sending after 429. {wait}"
    else:
        shown = verdict.shown
        window = "day (UTC)" if shown.length == DAY else shown.name
        message = f"The limit of {shown.limit} requests per {window} is used up. {wait}"
    return ApiError(verdict.refusal, message, headers={"Retry-After": str(seconds)})
