import os
import uuid
from typing import Any

import httpx
from tenacity import RetryCallState, retry, retry_if_exception, stop_after_attempt, wait_random_exponential

RETRYABLE = {408, 429, 500, 502, 503, 504}
BACKOFF = wait_random_exponential(min=1, max=30)


def seconds(error: BaseException | None) -> int:
    response = getattr(error, "response", None)
    return int(response.headers.get("Retry-After", 0)) if response is not None else 0


def may_succeed(error: BaseException) -> bool:
    """Give up at once on a wait of hours."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in RETRYABLE and seconds(error) <= 120
    return isinstance(error, httpx.TransportError)


def wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    return seconds(error) + BACKOFF(state)


@retry(retry=retry_if_exception(may_succeed), wait=wait, stop=stop_after_attempt(5), reraise=True)
def send(method: str, path: str, **options: Any) -> httpx.Response:
    return petstore.request(method, path, **options).raise_for_status()


petstore = httpx.Client(
    base_url="{{ base_url }}", headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}
)
once = {"Idempotency-Key": str(uuid.uuid4())}  # All attempts have the same key.
try:
    pet = send("GET", "/pets?status=available&limit=1").json()[0]
    print(send("POST", "/store/orders", json={"petId": pet["id"]}, headers=once).text)
except httpx.HTTPStatusError as error:
    raise SystemExit(error.response.text) from error
