"""`manage.py listen` prints each event once and in order, and survives failures without losing events."""

import json
import re
import signal
from collections.abc import Iterator
from io import StringIO
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from django.core.management import CommandError, call_command
from urllib3 import HTTPHeaderDict

from petstore.management.commands import listen
from petstore.management.commands.listen import FROM_NOW, LIMIT
from petstore.management.http_client import Response, UnreachableError

pytestmark = pytest.mark.same_on_both
URL, TARGET = "http://shop.test/v1", "http://localhost:3000/events?from=shop"
UNREACHABLE = UnreachableError(f"{URL} does not respond to GET: refused.")


def event(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": "order.placed",
        "data": {"pet": {"name": "B\u00e4r \x9b2J\u202e\u2028\x1b"}},
    }


def respond(status: int, body: Any = b"", **headers: str) -> Response:
    fields = HTTPHeaderDict({name.replace("_", "-"): value for name, value in headers.items()})
    return Response(status, fields, body if isinstance(body, bytes) else orjson.dumps(body))


def page(cursor: str, *numbers: int) -> Response:
    link = f'<{URL}/events?limit={LIMIT}&cursor={cursor}>; rel="next"'
    return respond(200, [event(number) for number in numbers], Link=link)


class Request(NamedTuple):
    method: str
    url: str
    headers: dict[str, str]
    body: bytes

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
        monkeypatch.setattr(listen, "sleep", self.waits.append)

    def send(self, *request: Any) -> Response:
        self.requests.append(Request(*request))
        response = next(self.responses, KeyboardInterrupt())
        if isinstance(response, BaseException):
            raise response
        return response

    def __call__(self, *responses: Response | Exception, options: tuple[str, ...] = ()) -> list[str]:
        """Run to the end; return the lines on standard output."""
        self.responses = iter(responses)
        call_command("listen", URL, "--key", "psk_x", *options, stdout=self.out, stderr=self.err)
        return self.out.getvalue().splitlines()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    handler = signal.getsignal(signal.SIGTERM)
    yield Run(monkeypatch)
    signal.signal(signal.SIGTERM, handler)


def test_each_event_is_one_printable_line_of_json_in_order(run: Run) -> None:
    lines = run(page("a", 1, 2), page("b"), page("c", 5))
    assert [json.loads(line) for line in lines] == [event(number) for number in (1, 2, 5)]
    assert all(line.isprintable() and "B\u00e4r" in line for line in lines)


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ((), {"since": FROM_NOW}),
        (("--since", "2026-11-23T09:30:00Z"), {"since": "2026-11-23T09:30:00Z"}),
        (("--since", "Bq.x_y-z"), {"cursor": "Bq.x_y-z"}),
    ],
)
def test_listen_starts_now_or_at_since_and_waits_only_after_a_partial_page(
    run: Run, options: tuple[str, ...], first: dict[str, str]
) -> None:
    run(page("a", *range(LIMIT)), page("b%3D", 1), options=options)
    queries = [{"limit": str(LIMIT)} | query for query in (first, {"cursor": "a"}, {"cursor": "b="})]
    assert [request.query for request in run.requests] == queries
    assert {request.url.partition("?")[0] for request in run.requests} == {f"{URL}/events"}
    assert {request.headers["Authorization"] for request in run.requests} == {"Bearer psk_x"}
    assert run.waits == [2]


def test_ctrl_c_or_sigterm_succeeds_and_prints_the_cursor(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(page("a", 1), page("b"))
    assert run.err.getvalue() == "\nTo continue from here: --since b\n"
    monkeypatch.setattr(listen, "sleep", lambda seconds: signal.raise_signal(signal.SIGTERM))
    run(page("c", 1), page("d"))
    assert run.err.getvalue().endswith("To continue from here: --since c\n")


def test_listen_waits_for_retry_after_and_survives_a_restart_of_the_service(run: Run) -> None:
    run(respond(429, b"Wait.", Retry_After="17"), UNREACHABLE, respond(502), page("a"))
    assert run.waits == [17, 2, 2, 2]
    assert f"{URL}/events responded with 429: Wait. Retrying in 17 s.\n" in run.err.getvalue()
    assert "does not respond to GET: refused. Retrying in 2 s.\n" in run.err.getvalue()
    assert len({request.url for request in run.requests[:4]}) == 1


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (respond(401, {"message": "No."}), 'responded with 401: {"message":"No."}'),
        (respond(200, b"<html>"), "has no valid feed of events: "),
        (respond(200, [event(1)]), "has no valid feed of events: "),
        (respond(200, 1, Link="<?cursor=a>"), "has no valid feed of events: "),
    ],
)
def test_permanent_error_stops_listen(run: Run, first: Response, message: str) -> None:
    with pytest.raises(CommandError, match=re.escape(message)):
        run(first)
    assert run.waits == []


def test_events_are_posted_in_order_without_the_key_and_again_if_rejected(run: Run) -> None:
    responses = (page("a", 1, 2), UNREACHABLE, respond(500), respond(404), respond(204), respond(200))
    run(*responses, options=("--forward", TARGET))
    posted = [request for request in run.requests if request.method == "POST"]
    assert [(request.url, json.loads(request.body)) for request in posted] == [
        (TARGET, event(number)) for number in (1, 1, 1, 1, 2)
    ]
    assert all(request.headers == {"Content-Type": "application/json"} for request in posted)
    assert run.waits == [2, 2, 2, 2]
    assert len(run.out.getvalue().splitlines()) == 2
    run(page("a"), page("c", 3, 4), respond(200), options=("--forward", TARGET))
    assert run.err.getvalue().endswith("--since a\n")  # The next page is only partly handled.
