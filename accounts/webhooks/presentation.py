"""The outcomes of attempts as pages show them."""

from accounts.models import WebhookAttempt
from accounts.webhooks.sender import TIMEOUT_SECONDS, Failure

REASONS = {
    Failure.NAME: "The host name can't be resolved",
    Failure.ADDRESS: "Webhooks may not be sent to this address",
    Failure.CONNECTION: "The connection failed",
    Failure.TLS: "TLS failed: the certificate is not trusted, has expired or is for another name",
    Failure.TIMEOUT: f"No complete response within {TIMEOUT_SECONDS:.0f} seconds",
    Failure.RESPONSE: "The response is not HTTP",
    Failure.SECRET: "The secret is no longer available: rotate it",
    Failure.EVENT: "The event is no longer stored",
}


def describe_outcome(attempt: WebhookAttempt) -> tuple[str, str]:
    """Return the state (up, degraded or down, like the status page) and its text."""
    if attempt.kind == attempt.Kind.LOST:
        return "down", "Earlier events were no longer stored"
    if attempt.is_pending:
        return "degraded", "Pending"
    if attempt.succeeded:
        return "up", f"{attempt.status}"
    return "down", REASONS.get(Failure(attempt.error), f"{attempt.status}")
