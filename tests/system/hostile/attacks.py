"""Requests that no client library sends: invalid HTTP, input that parsers interpret differently, and noise.

Each attack is a function of a random source and a key; the same seed produces the same bytes. For the
vulnerabilities see RFC 9112 section 11 (smuggling, splitting) and RFC 9110 section 17.
"""

import json
import struct
from collections.abc import Callable
from random import Random

import yaml

from tests.support.live import ROOT

Attack = Callable[[Random, str], bytes]

PATHS = [
    "/v1/pets", "/v1/pets?limit=2", "/v1/pets/1", "/v1/categories", "/v1/store/orders", "/v1/none", "/v1",
    "/v1/account", "/v1/events", "/v1/events?limit=2",
    "/", "/docs", "/docs/errors", "/openapi.json", "/healthz", "/admin/", "/account/login/", "/static/none",
]  # fmt: skip
PARAMETERS = {
    parameter["name"]
    for methods in yaml.safe_load((ROOT / "tests/openapi.yaml").read_text())["paths"].values()
    for operation in methods.values()
    for parameter in operation.get("parameters", [])
    if parameter["in"] == "query"
}
NAMES = [*sorted(PARAMETERS), "x", "format", "limit=1&limit", "cursor=a&cursor"]
METHODS = ["GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"]
ODD_TEXTS = [
    "", " ", "\0", "%00", "%", "%zz", "%c0%80", "%ed%a0%80", "\xff\xfe", "é", "\u202e", "..", "../" * 30,
    "%2e%2e%2f" * 20,
    "'; DROP TABLE pets; --", "{{7*7}}", "${jndi:ldap://x}", "<script>", "A" * 5_000, "-1", "0", "1e999",
    "9" * 400, "٣", "NaN", "a.a", "z" * 400 + ".z", "2026-11-23T09:30:00.9999999Z", "2026-02-29T24:60:60Z",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
]  # fmt: skip
ODD_HEADERS = [
    b"Content-Length: -1", b"Content-Length: +5", b"Content-Length: 5, 6", b"Content-Length: 0x5",
    b"Content-Length: 99999999999999999999", b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length:",
    b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding: xchunked", b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip", b"Transfer-Encoding:\x0bchunked",
    b"Expect: 100-continue", b"Expect: nonsense", b"Upgrade: websocket\r\nConnection: Upgrade",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
    b"Host: evil.example", b"Host: a\r\nHost: b", b"Host:", b"Host: \x00", b"Host: [::1", b"Host: a b",
    b"Host: \xff",
    b"X-Forwarded-For: 127.0.0.1, nonsense", b"X-Forwarded-Proto: https", b"X-Forwarded-Host: evil.example",
    b"X_Forwarded_For: 1.1.1.1", b"X-Request-Id: \xff\xff", b"X-Request-Id: " + b"a" * 9_000,
    b"If-None-Match: *", b'If-None-Match: "' + b"a," * 3_000, b"If-Match: *", b"Range: bytes=0-0,-1,5-2",
    b"Cookie: sessionid=\xff; csrftoken=" + b"b" * 5_000, b"Cookie: " + b";".join([b"a=b"] * 500),
    b"Accept: \xff", b"Accept-Encoding: " + b"gzip," * 900, b"Content-Type: a/b; charset=rot13",
    b"Content-Type: multipart/form-data", b"Content-Type: multipart/form-data; boundary=" + b"x" * 500,
    b"Content-Type: \xff", b"Content-Type: a/b; charset*=nope''x", b"Content-Type: a/b; a*=x; a*0=y",
    b"Idempotency-Key: " + b"i" * 256, b"Idempotency-Key: \x7f",
    b"Idempotency-Key: a\r\nIdempotency-Key: b",
    b"Authorization: Bearer \xff", b"Authorization: Digest x", b": no name", b"no colon", b"Bad Name: x",
    b"\x00: x",
    b"X: a\r\n folded", b"X: a\nY: b", b"X: a\rY: b", b"X:" + b" " * 3_000 + b"a", b"X" * 3_000 + b": a",
]  # fmt: skip


def head(
    method: str, target: str | bytes, *headers: bytes, key: str = "", version: str = "HTTP/1.1"
) -> bytes:
    raw = target if isinstance(target, bytes) else target.encode("latin-1", "replace")
    first = method.encode() + b" " + raw + b" " + version.encode()
    lines = [first, b"Host: localhost", b"Cookie: sessionid=x", *headers]
    if key:
        lines.append(b"Authorization: Bearer " + key.encode())
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


def noise(choose: Random, longest: int = 400) -> bytes:
    return choose.randbytes(choose.randint(1, longest))


def odd_request_line(choose: Random, key: str) -> bytes:
    """A request with an invalid request line, or one of another protocol."""
    path = choose.choice(PATHS)
    lines = [
        f"GET {path}", f"GET  {path} HTTP/1.1", f"GET\t{path}\tHTTP/1.1", f"get {path} HTTP/1.1",
        f" GET {path} HTTP/1.1",
        f"GET {path} HTTP/9.9", f"GET {path} HTTP/1.1 x", f"GET {path} http/1.1", f"GET {path} HTTP/0.9",
        f"GET {path} ICY",
        "GET", "", "\0", f"GET http://evil.example{path} HTTP/1.1", f"GET //evil.example{path} HTTP/1.1",
        "GET * HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT evil.example:443 HTTP/1.1",
        f"GET {path}#a HTTP/1.1",
        f"GET \\{path} HTTP/1.1", "G" * 20_000, f"GET /{'a' * choose.randint(1, 70_000)} HTTP/1.1",
        "PRI * HTTP/2.0",
    ]  # fmt: skip
    end = choose.choice(["\r\n", "\n", "\r", "\r\n\r\n"])
    return (choose.choice(lines) + end + f"Host: localhost\r\nConnection: close{end}{end}").encode(
        "latin-1"
    )


def odd_target(choose: Random, key: str) -> bytes:
    """A request for an unknown or non-text target."""
    path, odd = choose.choice(PATHS).partition("?")[0], choose.choice(ODD_TEXTS)
    target = choose.choice(
        [f"{path}/{odd}", f"{path}?{choose.choice(NAMES)}={odd}", f"{path}?{odd}", f"/{odd}{path}"]
    )
    return head(choose.choice(METHODS), target.encode("utf-8", "surrogateescape"), key=key)


def odd_headers(choose: Random, key: str) -> bytes:
    """A request with invalid or too many headers."""
    chosen = choose.sample(ODD_HEADERS, choose.randint(1, 3))
    if choose.random() < 0.1:
        chosen += [
            b"X-%d: %s" % (number, b"v" * choose.randint(0, 200))
            for number in range(choose.choice([50, 150, 1_000]))
        ]
    method = choose.choice(METHODS)
    body = noise(choose, 50) if method in {"POST", "PUT", "PATCH"} else b""
    return head(method, choose.choice(PATHS), *chosen, key=choose.choice([key, ""])) + body


def odd_chunks(choose: Random, key: str) -> bytes:
    """A request with an invalid chunked body."""
    sizes = [
        b"5", b"0", b"-1", b"ffffffffffffffff", b"fffffffffffffffff", b"0x5", b"5;ext=1",
        b"5;" + b"e" * 5_000, b"g", b"", b" 5", b"5 ",
    ]  # fmt: skip
    ends, last = [b"\r\n", b"\n", b"\r"], [b"\r\n", b""]
    chunks = b"".join(
        choose.choice(sizes) + choose.choice(ends) + noise(choose, 12) + choose.choice(last)
        for _ in range(choose.randint(1, 6))
    )
    trailers = [
        b"", b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\r\nContent-Length: 5\r\n\r\n",
        b"0\r\n" + b"T: t\r\n" * 500 + b"\r\n",
    ]  # fmt: skip
    framing = b"Content-Type: application/json", b"Transfer-Encoding: chunked"
    return head("POST", choose.choice(PATHS), *framing, key=key) + chunks + choose.choice(trailers)


def smuggled(choose: Random, key: str) -> bytes:
    """A request that two parsers split differently: Content-Length beside Transfer-Encoding."""
    inner = head("GET", "/v1/smuggled", key=key)
    lengths = [b"Content-Length: %d" % choose.choice([0, 4, 6, len(inner)]), b"Transfer-Encoding: chunked"]
    choose.shuffle(lengths)
    return head("POST", "/v1/pets", *lengths, key=key) + b"0\r\n\r\n" + inner


def pipelined(choose: Random, key: str) -> bytes:
    """Many requests in one write; the last ones may be noise."""
    one = head("GET", choose.choice(PATHS), key=key).replace(b"Connection: close\r\n", b"")
    return one * choose.randint(2, 30) + choose.choice([b"", noise(choose), head("GET", "/healthz")])


def other_protocol(choose: Random, key: str) -> bytes:
    """Noise, or the start of another protocol."""
    hello = b"\x16\x03\x01" + struct.pack(">H", 200) + b"\x01\x00\x00\xc4\x03\x03" + choose.randbytes(194)
    settings = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + choose.choice([b"\0\0\0\x04\0\0\0\0\0", noise(choose)])
    others = [b"\r\n" * 500, b"*1\r\n$4\r\nPING\r\n", b"SSH-2.0-x\r\n", b"\0" * 1_000]
    return choose.choice([hello, settings, noise(choose, 4_000), *others])


def odd_json(choose: Random, key: str) -> bytes:
    """A well-formed request with a hostile body."""
    text = choose.choice(ODD_TEXTS)
    values = [text, choose.randint(-(2**70), 2**70), None, True, 1.5, [], {}, [[]], text * 20]
    body = json.dumps(
        {
            name: choose.choice(values)
            for name in choose.sample(["name", "categoryId", "status", "petId", "id", text], 4)
        }
    )
    bodies = [
        body.encode(), body.encode("utf-16"), body.encode()[: choose.randint(0, len(body))],
        b"\xef\xbb\xbf" + body.encode(),
        b"[" * choose.randint(1, 60_000), b'{"a":' * 5_000, b"1" * 60_000, b'{"name":"a","name":"b"}',
        b'"\\ud800"', b"{}" * 100,
        b'{"name": "\\u0000", "categoryId": 1}', b"NaN", noise(choose, 3_000), b" " * choose.choice([10,
        65_535, 65_537, 200_000]),
    ]  # fmt: skip
    chosen = choose.choice(bodies)
    extra = choose.choice([[], [], [b"Idempotency-Key: " + choose.choice([b"a", b"b", b"k" * 255])]])
    headers = [b"Content-Type: application/json", b"Content-Length: %d" % len(chosen), *extra]
    return (
        head(choose.choice(["POST", "POST", "PUT", "DELETE"]), choose.choice(PATHS), *headers, key=key)
        + chosen
    )


def odd_form(choose: Random, key: str) -> bytes:
    """A form for the back office's sign-in that no browser sends."""
    boundary = b'--x\r\nContent-Disposition: form-data; name="username"' + choose.choice(
        [b"", b'; filename="\0"', b"; filename*=utf-8''%ff"]
    )
    bodies = [
        b"username=%00&password=%ff", b"a=b&" * 3_000, b"username=" + b"u" * 60_000, noise(choose),
        boundary + b"\r\n\r\nu\r\n--x--", boundary,
    ]  # fmt: skip
    kinds = [
        b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x",
        b"text/plain; charset=utf-16", b"multipart/form-data; boundary=",
    ]  # fmt: skip
    chosen = choose.choice(bodies)
    headers = [
        b"Content-Type: " + choose.choice(kinds),
        b"Content-Length: %d" % len(chosen),
        b"Cookie: csrftoken=" + b"c" * 32,
    ]
    return head("POST", choose.choice(["/account/login/", "/admin/", "/docs"]), *headers) + chosen


def odd_key(choose: Random, key: str) -> bytes:
    """A request with an almost valid key: mistyped, truncated, repeated, or unknown."""
    place = choose.randrange(len(key))
    mistyped = key[:place] + "x" + key[place + 1 :]
    keys = [
        key[:place], mistyped, key + key, key.upper(), f"{key} {key}", key.replace("live", "test"),
        "\0" + key,
    ]  # fmt: skip
    return head("GET", choose.choice(PATHS), key=choose.choice(keys))


def mutated(choose: Random, key: str) -> bytes:
    """Another attack, with bytes changed, removed or repeated."""
    data = bytearray(choose.choice(BASE_ATTACKS)(choose, key))
    for _ in range(choose.randint(1, 8)):
        place = choose.randrange(len(data) or 1)
        change = choose.random()
        if change < 0.5 and data:
            data[place] = choose.randrange(256)
        elif change < 0.75:
            del data[place : place + choose.randint(1, 20)]
        else:
            data[place:place] = data[place : place + choose.randint(1, 20)] or b"\0"
    return bytes(data) or b"\0"


BASE_ATTACKS: list[Attack] = [
    odd_request_line, odd_target, odd_headers, odd_chunks, smuggled, pipelined, other_protocol, odd_json,
    odd_form, odd_key,
]  # fmt: skip
ATTACKS: list[Attack] = [*BASE_ATTACKS, mutated, mutated]
