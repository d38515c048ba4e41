"""How long the service takes for heads that are hostile to parsers, just within the limits.

    python -m tests.load.heads http://127.0.0.1:8000 [KEY]

prints the milliseconds of each beside those of a plain request, the best of five. None should take more
than a few milliseconds longer.
"""

import sys
import time
from urllib.parse import urlsplit

import httpx

from petstore.api.request_headers import MAX_CONTENT_TYPE_LENGTH, MAX_HEADER_LENGTH

PATHS = ("/v1/pets", "/healthz", "/", "/account/login/", "/static/petstore/site.css", "/metrics")
FILL = {  # Repeated up to the limit, after and before the text that makes a parser start.
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


def filled(name: str, before: str, part: str, after: str) -> str:
    most = MAX_CONTENT_TYPE_LENGTH if name == "Content-Type" else MAX_HEADER_LENGTH
    room = most - len(before) - len(after)
    return before + part * (room // len(part)) + after


def milliseconds(client: httpx.Client, path: str, headers: dict[str, str]) -> float:
    """The time of the fastest of five."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        client.get(path, headers=headers)
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def main(url: str, key: str = "") -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        own = {"Authorization": f"Bearer {key}", "Host": urlsplit(url).netloc}
        for path in PATHS:
            print(f"{path}: {milliseconds(client, path, own):.1f} plain")
            for name, values in FILL.items():
                took = [milliseconds(client, path, own | {name: filled(name, *one)}) for one in values]
                print(f"  {name}: {', '.join(f'{one:.1f}' for one in took)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
