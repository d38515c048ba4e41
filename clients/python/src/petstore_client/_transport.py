"""Sends requests: retries, the shared wait, deprecation warnings, and errors."""

import json
import random
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import uuid4

import urllib3

from petstore_client._gate import Gate, get_gate
from petstore_client.errors import (
    ApiDeprecationWarning,
    ApiError,
    ConnectionFailedError,
    ErrorDetail,
    RateLimit,
    RateLimitError,
)  # fmt: skip

USER_AGENT = "petstore-client-python/1.0.0"
FIRST_BACKOFF, MAX_BACKOFF = 0.5, 8.0  # Seconds.
CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Operation:
    method: str
    path: str  # Relative to the base URL; `{}` is the id.
    query: tuple[str, ...] = ()
    bucket: str = ""  # Which limit it counts towards.


OPERATIONS = {
    "listPets": Operation("GET", "/pets", ("status", "categoryId", "limit", "cursor")),
    "createPet": Operation("POST", "/pets"),
    "createPets": Operation("POST", "/pets/batch"),
    "getPet": Operation("GET", "/pets/{}"),
    "listCategories": Operation("GET", "/categories", ("limit", "cursor")),
    "listOrders": Operation("GET", "/store/orders", ("status", "limit", "cursor")),
    "placeOrder": Operation("POST", "/store/orders"),
    "getOrder": Operation("GET", "/store/orders/{}"),
    "cancelOrder": Operation("DELETE", "/store/orders/{}"),
    "listEvents": Operation("GET", "/events", ("type", "since", "limit", "cursor")),
    "getAccount": Operation("GET", "/account", bucket="account"),
}


@dataclass(frozen=True)
class Reply:
    """A response below 400. `body` is parsed JSON, or None without a body, as for a 304."""

    body: Any
    etag: str
    next_query: dict[str, str]  # Of `Link: rel="next"`, or empty.


class Transport:
    """Sends the requests of one client."""

    def __init__(
        self, key: str, base_url: str, *, timeout: float, retries: int, max_wait: float, max_in_flight: int
    ) -> None:
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise ValueError("The key must be visible ASCII characters.")
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must be an address such as https://pets.example/v1.")
        self.base_url = base_url.rstrip("/")
        self._origin = f"{parts.scheme}://{parts.netloc.lower()}"
        self._key = key
        self._retries, self._max_wait, self._max_in_flight = retries, max_wait, max_in_flight
        self._timeout = timeout
        limits = urllib3.Timeout(connect=min(CONNECT_SECONDS, timeout), read=timeout)
        self._pool = urllib3.PoolManager(maxsize=max_in_flight, timeout=limits, retries=False)
        self.quota: RateLimit | None = None

    def close(self) -> None:
        self._pool.clear()

    def send(
        self,
        name: str,
        *,
        resource_id: int | None = None,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        etag: str = "",
        idempotency_key: str | None = None,
    ) -> Reply:
        """Send an operation, with retries. Raises ApiError and ConnectionFailedError."""
        operation = OPERATIONS[name]
        headers = {
            "Authorization": f"Bearer {self._key}",
            "Accept": "application/json",
            "User-Agent": USER_AGENT,
        }
        if operation.method == "POST":
            headers["Content-Type"] = "application/json"
            headers["Idempotency-Key"] = idempotency_key or str(uuid4())
        if etag:
            headers["If-None-Match"] = etag
        sent = {key: value for key, value in (query or {}).items() if value is not None}
        path = operation.path.format(resource_id)
        url = f"{self.base_url}{path}{'?' if sent else ''}{urlencode(sent)}"
        payload = None if body is None else json.dumps(body).encode()
        gate = get_gate(self._origin, self._key, operation.bucket)
        for attempt in range(self._retries + 1):
            gate.enter(self._max_in_flight, self._max_wait)
            try:
                return self._send_once(gate, (name, operation.method, url), headers, payload)
            except (ApiError, ConnectionFailedError) as error:
                if attempt == self._retries or not is_retryable(error):
                    raise
                if not isinstance(error, ApiError) or error.retry_after is None:
                    longest = min(FIRST_BACKOFF * 2**attempt, MAX_BACKOFF)
                    time.sleep(random.uniform(longest / 2, longest))  # noqa: S311
        raise AssertionError("The loop returns or raises.")

    def _send_once(
        self, gate: Gate, call: tuple[str, str, str], headers: dict[str, str], body: bytes | None
    ) -> Reply:
        name, method, url = call
        error: ApiError | None = None
        try:
            response, data = self._read(method, url, headers=headers, body=body)
            quota = parse_rate_limit(response.headers)
            self.quota = quota or self.quota
            if response.status >= 300 and response.status != 304:
                error = build_error(response, data, quota)
                raise error
        except urllib3.exceptions.HTTPError as failure:
            raise ConnectionFailedError(f"{method} {url}: {failure}") from failure
        finally:
            gate.leave(error)
        warn_of_deprecation(name, response.headers)
        try:
            content = json.loads(data) if data else None
        except ValueError as failure:
            raise ConnectionFailedError(f"{method} {url}: the response is not JSON.") from failure
        next_query = parse_next_query(response.headers.get("Link", ""))
        return Reply(content, response.headers.get("ETag", ""), next_query)

    def _read(self, method: str, url: str, **options: Any) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        """Raise TimeoutError as well if the body arrives too slowly."""
        end = time.monotonic() + self._timeout
        response = self._pool.request(method, url, redirect=False, preload_content=False, **options)
        data = b""
        while chunk := response.read1(1 << 16):
            data += chunk
            if time.monotonic() > end:
                response.close()
                raise urllib3.exceptions.TimeoutError("The response took too long.")
        response.release_conn()
        return response, data


def is_retryable(error: ApiError | ConnectionFailedError) -> bool:
    if isinstance(error, ConnectionFailedError):
        return True
    return error.status in (408, 429) or error.status >= 500 or error.code == "idempotency_key_in_use"


def parse_rate_limit(headers: Mapping[str, str]) -> RateLimit | None:
    try:
        limit, remaining, reset = (
            int(headers[f"X-RateLimit-{name}"]) for name in ("Limit", "Remaining", "Reset")
        )
    except (KeyError, ValueError):
        return None
    return RateLimit(limit, remaining, datetime.fromtimestamp(reset, timezone.utc))


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Parse seconds or a date (RFC 9110 section 10.2.3); the service sends seconds, a proxy may not."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None


def parse_next_query(link: str) -> dict[str, str]:
    """Return only the query, so that the key is never sent to another host than that of `base_url`."""
    for part in link.split(","):
        target, _, parameters = part.strip().partition(";")
        if parameters.strip() == 'rel="next"':
            return dict(parse_qsl(urlsplit(target.strip("<>")).query))
    return {}


def build_error(response: urllib3.BaseHTTPResponse, data: bytes, quota: RateLimit | None) -> ApiError:
    status = response.status
    try:
        body = json.loads(data)
        code, message = str(body["code"]), str(body["message"])
        details = tuple(
            ErrorDetail(item["field"], item["code"], item["message"], item.get("index"))
            for item in body.get("details", ())
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        code, message, details = f"http_{status}", response.reason or "No Error body.", ()
    retry_after = parse_retry_after(response.headers)
    if status == 429 and retry_after is None:
        retry_after = 1.0  # Not from the service, which always says how long.
    kind = RateLimitError if status == 429 else ApiError
    request_id = response.headers.get("X-Request-Id")
    return kind(
        status, code, message, details=details, request_id=request_id, retry_after=retry_after, quota=quota
    )


_warned: set[str] = set()
_warned_lock = threading.Lock()


def warn_of_deprecation(name: str, headers: Mapping[str, str]) -> None:
    """Warn once in this process if the operation is deprecated (RFC 9745, RFC 8594)."""
    if "Deprecation" not in headers and "Sunset" not in headers:
        return
    with _warned_lock:
        if name in _warned:
            return
        _warned.add(name)
    end = f" It will be removed on {headers['Sunset']}." if "Sunset" in headers else ""
    warnings.warn(f"{name} is deprecated.{end}", ApiDeprecationWarning, stacklevel=5)
