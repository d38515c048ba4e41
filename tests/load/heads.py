"""How long the service takes for headers that are hostile to parsers, just within the limits.

    python -m tests.load.heads http://127.0.0.1:8000 [KEY]

Prints the milliseconds of each beside those of a plain request, the best of five. None should take more
than a few milliseconds longer.
"""

import sys
import time
from urllib.parse import urlsplit

import httpx

from petstore.api.request_headers import MAX_CONTENT_TYPE_LENGTH, MAX_HEADER_LENGTH

PATHS = ("/v1/pets", "/healthz", "/", "/account/login/", "/static/petstore/site.css", "/metrics")
HEADERS = {  # Prefix, the part that is repeated up to the limit, and suffix.
    "Cookie": [('sessionid="', "\\", '"'), ('sessionid="', "\\123", '"'), ("", "a=b;", ""), ("", "=", "")],
    "Content-Type": [
        ('a/b;a="', ";", '"'),
        ("a/b", ";a=b", ""),
        ("a/b", ";a*0=b", ""),
        ('a/b;a="', '\\"', ""),
    ],
    "If-None-Match": [('"a"', ",", ""), ("", '"a",', ""), ("", '"', ""), ("", "W/", "")],
    "If-Modified-Since": [("Mon, ", "1", ""), ("Mon, 1 Jan 2000 ", "1:", ""), ("", "-", "")],
    "Accept-Encoding": [("", "gzip;q=", ""), ("gzip", " ", "x"), ("", ",", "")],
    "Authorization": [("Bearer", " ", "x"), ("Bearer ", "psk_live_", "")],
    "X-Forwarded-For": [("", "1,", "1.1.1.1"), ("", "[", ""), ("[", ":", "]")],
    "Idempotency-Key": [("", "a", "")],
    "Origin": [("http://", "a.", "")],
    "Referer": [("http://", "[", ""), ("http://", "a@", "")],
    "X-Request-Id": [("", "a", "")],
    "Range": [("bytes=", "0-1,", "")],
    "Accept": [("", "a/b,", "")],
    "Accept-Language": [("", "a-b,", "")],
    "Host": [("", "a.", ""), ("a:", "1", ""), ("[", ":", "]")],
    "traceparent": [("00-", "0", ""), ("0", " ", "x")],
    "tracestate": [("a=", "b", ""), ("a=b", " ", "x")],
}


def build_value(name: str, prefix: str, part: str, suffix: str) -> str:
    limit = MAX_CONTENT_TYPE_LENGTH if name == "Content-Type" else MAX_HEADER_LENGTH
    return prefix + part * ((limit - len(prefix) - len(suffix)) // len(part)) + suffix


def milliseconds(client: httpx.Client, path: str, headers: dict[str, str]) -> float:
    """The time of the fastest of five requests."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        client.get(path, headers=headers)
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def main(url: str, key: str = "") -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        plain = {"Host": urlsplit(url).netloc} | ({"Authorization": f"Bearer {key}"} if key else {})
        for path in PATHS:
            print(f"{path}: {milliseconds(client, path, plain):.1f} plain")
            for name, values in HEADERS.items():
                hostile = [plain | {name: build_value(name, *one)} for one in values]
                times = [milliseconds(client, path, headers) for headers in hostile]
                print(f"  {name}: {', '.join(f'{one:.1f}' for one in times)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
