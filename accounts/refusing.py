"""What is noted of a request that is refused although its client has the secret of a key."""

import time

from django.http import HttpRequest

from accounts.limits import Verdict
from accounts.usage import write_behind
from accounts.usage.refusals import Refused
from petstore.api.client_ip import client_address
from petstore.api.passage import Passage


def note(
    request: HttpRequest,
    passage: Passage,
    public_id: str,
    rule: str,
    *,
    verdict: Verdict | None = None,
    scope: str = "",
) -> None:
    """Note what staff may want to know. `verdict`: where the quota refused."""
    match = request.resolver_match
    refused = Refused(
        request_id=passage.id,
        public_id=public_id,
        rule=rule,
        at=time.time_ns() // 1000 if verdict is None else verdict.now,
        method=request.method or "",
        route=match.route if match else "",
        address=client_address(request),
        verdict=verdict,
        scope=scope,
    )
    write_behind.recorder.refuse(refused)


def note_missing_scope(request: HttpRequest, passage: Passage, scope: str) -> None:
    """Do so for a key that lacks the operation's scope; a step of the gate."""
    if passage.caller is not None:
        note(request, passage, passage.caller.public_id, "insufficient_scope", scope=scope)
