"""`manage.py listen` prints each event once and in order, and survives failures without losing events."""

import json
import signal
from collections.abc import Iterator
from email.message import Message
from io import StringIO
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from django.core.management import CommandError, call_command

from petstore.management.commands import listen
from petstore.management.commands.listen import FROM_NOW, LIMIT, Command
from petstore.management.http_client import Response, UnreachableError

pytestmark = pytest.mark.same_on_both
URL, TARGET = "http://shop.test/v1", "http://localhost:3000/events?from=shop"
KEY = "psk_live_x"


def event(number: int) -> dict[str, Any]:
    created_at = "2026-11-23T09:30:00.250000Z"
    data = {"order": {"id": number}}
    return {"id": number, "type": "order.placed", "createdAt": created_at, "data": data}


def respond(status: int, body: Any, **headers: str) -> Response:
    message = Message()
    for name, value in ({"Content-Type": "application/json"} | headers).items():
        message[name.replace("_", "-")] = value
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    return Response(status, message, content)


def page(cursor: str, *numbers: int) -> Response:
    link = f'<{URL}/events?limit={LIMIT}&cursor={cursor}>; rel="next"'
    return respond(200, [event(number) for number in numbers], Link=link)


def error(status: int, message: str, **headers: str) -> Response:
    return respond(status, {"code": "x", "message": message, "status": status}, **headers)


class Request(NamedTuple):
    method: str
    url: str
    headers: dict[str, str]
    body: Any

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.url).query).items()}


class Run:
    """Runs the command against a sequence of responses, followed by Ctrl-C."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[Request] = []
        self.waits: list[float] = []
        self.out, self.err = StringIO(), StringIO()
        self.responses: Iterator[Response | Exception] = iter(())
        monkeypatch.setattr(listen, "send", self.send)
        monkeypatch.setattr(Command, "wait", lambda command, seconds: self.waits.append(seconds))

    def send(self, method: str, url: str, headers: dict[str, str], body: bytes) -> Response:
        self.requests.append(Request(method, url, headers, body and json.loads(body)))
        response = next(self.responses, KeyboardInterrupt())
        if isinstance(response, BaseException):
            raise response
        return response

    def __call__(self, *responses: Response | Exception, options: tuple[str, ...] = ()) -> list[str]:
        """Run to the end; return the lines on standard output."""
        self.responses = iter(responses)
        call_command("listen", URL, "--key", KEY, *options, stdout=self.out, stderr=self.err)
        return self.out.getvalue().splitlines()

    def failure(self, *responses: Response | Exception, options: tuple[str, ...] = ()) -> str:
        with pytest.raises(CommandError) as raised:
            self(*responses, options=options)
        return str(raised.value)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


# --- Output --------------------------------------------------------------------------------------


def test_each_event_is_one_line_in_order(run: Run) -> None:
    lines = run(page("a", 1, 2), page("b"), page("c", 5))
    at = "2026-11-23T09:30:00.250000Z order.placed"
    assert lines == [f'{number} {at} {{"order":{{"id":{number}}}}}' for number in (1, 2, 5)]
    for_programs = run(page("a", 1, 2), options=("--json",))[3:]
    assert [json.loads(line) for line in for_programs] == [event(1), event(2)]
    evil = event(1) | {"data": {"pet": {"name": "B\u00e4r \x9b2J\u202e\u2028\x1b[2J"}}}
    lines = run(respond(200, [evil], Link=f'<{URL}/events?cursor=a>; rel="next"'))
    assert lines[-1].endswith('{"pet":{"name":"B\u00e4r \\u009b2J\\u202e\\u2028\\u001b[2J"}}')


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ((), {"since": FROM_NOW}),
        (("--since", "2026-11-23T09:30:00Z"), {"since": "2026-11-23T09:30:00Z"}),
        (("--since", "Bq.x_y-z", "--every", "2"), {"cursor": "Bq.x_y-z"}),
    ],
)
def test_listen_starts_now_or_at_since_and_waits_only_after_a_partial_page(
    run: Run, options: tuple[str, ...], first: dict[str, str]
) -> None:
    run(page("a", *range(LIMIT)), page("b", 1), options=options)
    queries = [first, {"cursor": "a"}, {"cursor": "b"}]
    assert [request.query for request in run.requests] == [
        {"limit": str(LIMIT)} | query for query in queries
    ]
    assert {request.url.partition("?")[0] for request in run.requests} == {f"{URL}/events"}
    assert {request.headers["Authorization"] for request in run.requests} == {f"Bearer {KEY}"}
    assert run.waits == [2.0]


# --- Shutdown ------------------------------------------------------------------------------------


def test_ctrl_c_or_sigterm_succeeds_and_prints_the_cursor(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()  # Without a response there is no cursor.
    assert run.err.getvalue() == "\n"
    run(page("a", 1), page("b"))
    assert run.err.getvalue().endswith("\nTo continue from here: --since b\n")
    assert KEY not in run.out.getvalue() + run.err.getvalue()
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Command, "wait", lambda command, seconds: signal.raise_signal(signal.SIGTERM))
    run(page("c", 1), page("d"))
    assert run.err.getvalue().endswith("To continue from here: --since c\n")
    assert signal.getsignal(signal.SIGTERM) is handler


# --- Failures ------------------------------------------------------------------------------------


def test_retry_after_is_obeyed(run: Run) -> None:
    run(error(429, "Wait.", Retry_After="17"), error(503, "Busy.", Retry_After="2"), page("a"))
    assert run.waits == [17, 2, 2.0]
    assert f"{URL}/events responded with 429: Wait. Retrying in 17 s.\n" in run.err.getvalue()
    assert len({request.url for request in run.requests[:3]}) == 1


@pytest.mark.parametrize("retry_after", ["", "soon", "-1", "9" * 40, "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_invalid_retry_after_means_exponential_backoff(run: Run, retry_after: str) -> None:
    run(*[error(503, "Busy.", Retry_After=retry_after)] * 7)
    assert run.waits == [1, 2, 4, 8, 16, 30, 30]


def test_listen_survives_a_restart_of_the_service(run: Run) -> None:
    unreachable = UnreachableError(f"{URL} does not respond to GET: refused.")
    lines = run(page("a"), unreachable, unreachable, respond(502, b"<html>"), page("b", 7))
    assert [line.split()[0] for line in lines] == ["7"]
    assert [request.query.get("cursor") for request in run.requests[1:5]] == ["a"] * 4
    assert run.waits == [2.0, 1, 2, 4, 2.0]
    assert "does not respond to GET: refused. Retrying in 1 s." in run.err.getvalue()
    assert "responded with 502: no reason given. Retrying in 4 s." in run.err.getvalue()


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (UnreachableError(f"{URL} does not respond to GET: refused."), "does not respond to GET: refused."),
        (
            error(401, "The API key is not valid."),
            "responded with 401: The API key is not valid.",
        ),
        (error(403, "It lacks events:read."), "responded with 403: It lacks events:read."),
        (error(410, "Events are kept for 30 days."), "responded with 410: Events are kept for 30 days."),
        (error(400, "`cursor` is invalid."), "responded with 400: `cursor` is invalid."),
        (
            respond(404, b"<html>", Content_Type="text/html"),
            "responded with 404: no reason given.",
        ),
        (respond(200, b"<html>", Content_Type="text/html"), "has no valid feed of events: "),
        (respond(200, [event(1)]), "this is not a page of a feed."),
        (respond(200, {}, Link=f'<{URL}/events?cursor=a>; rel="next"'), "this is not a page of a feed."),
        (
            respond(200, [{"id": 1}], Link=f'<{URL}/events?cursor=a>; rel="next"'),
            "has no valid feed of events",
        ),
        (respond(200, [], Link=f'<{URL}/events>; rel="next"'), "has no valid feed of events"),
    ],
)
def test_permanent_error_stops_listen(run: Run, first: Response | Exception, message: str) -> None:
    assert message in run.failure(first)
    assert run.waits == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--forward", "localhost:3000"), "--forward 'localhost:3000' is not an http(s) address."),
        (("--every", "0"), "--every must be 0.1 or more."),
        (("--every", "nan"), "--every must be 0.1 or more."),
    ],
)
def test_invalid_options_are_rejected_before_any_request(
    run: Run, options: tuple[str, ...], message: str
) -> None:
    assert run.failure(options=options) == message
    assert run.requests == []


# --- Forwarding ----------------------------------------------------------------------------------


def test_events_are_posted_in_order_without_the_key_and_again_if_rejected(run: Run) -> None:
    unreachable = UnreachableError(f"{TARGET} does not respond to POST: refused.")
    moved, accepted = respond(302, b"", Retry_After="9"), respond(200, b"")
    responses = (page("a", 1, 2), unreachable, respond(500, b""), moved, accepted, accepted)
    run(*responses, options=("--forward", TARGET))
    posted = [request for request in run.requests if request.method == "POST"]
    assert [(request.url, request.body) for request in posted] == [
        (TARGET, event(number)) for number in (1, 1, 1, 1, 2)
    ]
    assert all("Authorization" not in request.headers for request in posted)
    assert {request.headers["Content-Type"] for request in posted} == {"application/json"}
    assert run.waits == [1, 2, 9, 2.0]
    message = run.err.getvalue()
    assert (
        f"Event 1 was not forwarded: {TARGET} does not respond to POST: refused. Retrying in 1 s.\n"
        in message
    )
    assert "/events responded with 500: no reason given. Retrying in 2 s.\n" in message
    assert len(run.out.getvalue().splitlines()) == 2
    run(page("a"), page("c", 3, 4), respond(200, b""), options=("--forward", TARGET))
    assert run.err.getvalue().endswith("--since a\n")  # The next page is only partly handled.
