"""Print the feed of events on the terminal, and forward it to a program under development."""

import re
import signal
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson
from django.conf import settings
from django.core.management.base import CommandError

from petstore.conformance import client
from petstore.conformance.client import (
    INVALID_OPTIONS,
    Response,
    UnreachableError,
    ViolationError,
    exchange,
)
from petstore.environment import is_page_url, to_ascii
from petstore.management.base import JsonCommand, escape_nonprintable

LIMIT = 100
FROM_NOW = "9999-12-31T23:59:59Z"  # A time in the future selects the end of the feed.
MAX_BACKOFF_SECONDS = 30  # Unless Retry-After is longer.
HEADERS = {"User-Agent": "petstore-listen"}


class Command(JsonCommand):
    help = (
        "Print events as they happen, one per line, with id, time, type and data. For development: "
        "--forward posts each event to your program, in order, and retries until it is accepted. Each poll "
        "counts as a request. Stop with Ctrl-C."
    )
    examples = """
        PETSTORE_KEY=psk_live_... manage.py listen
        manage.py listen https://api.example.com/v1 --forward http://localhost:3000/events
        manage.py listen --since 2026-11-23T09:30:00Z --json
        """
    statuses = {
        0: "Stopped by Ctrl-C or SIGTERM; standard error says where to continue.",
        1: "The service rejected a request, sent an invalid response, or was unreachable at the start.",
    }
    wait = staticmethod(time.sleep)

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_argument = parser.add_argument
        text = "The API's address, ending in /v1. Default: BASE_URL."
        add_argument("url", metavar="URL", nargs="?", default=settings.BASE_URL, help=text)
        client.add_key_option(parser, "An API key with the scope events:read.")
        text = "Continue an earlier run, or start at a time such as 2026-11-23T09:30:00Z. Default: now."
        add_argument("--since", metavar="CURSOR", default=FROM_NOW, help=text)
        text = "If events since then have already been pruned, continue from now instead of stopping."
        add_argument("--skip-missed", action="store_true", help=text)
        text = "Post each event as JSON to this address, and retry until the response is 2xx."
        add_argument("--forward", metavar="URL", help=text)
        text = "Poll interval once all events have been read. Default: 2."
        add_argument("--every", type=float, default=2, metavar="SECONDS", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        forward = options["forward"]
        if forward and not is_page_url(forward):
            problem = f"--forward {forward!r} is not an http(s) address."
            raise CommandError(problem, returncode=INVALID_OPTIONS)
        if not options["every"] >= 0.1:
            raise CommandError("--every must be 0.1 or more.", returncode=INVALID_OPTIONS)
        self.url, key = client.get_url_and_key(options)
        self.headers = HEADERS | {"Authorization": f"Bearer {key}"}
        self.since, self.connected = options["since"], False
        # Treat SIGTERM like Ctrl-C.
        previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            for event in self.follow(options):
                self.write_result(event, format_event(event))
                if forward:
                    self.forward(to_ascii(forward), event)
        except KeyboardInterrupt:
            self.write_note("")  # End the line on which the terminal shows ^C.
        except (ViolationError, LookupError, TypeError, ValueError) as error:
            raise CommandError(f"{self.url} has no valid feed of events: {error}") from None
        finally:
            signal.signal(signal.SIGTERM, previous_handler)
            if self.since != FROM_NOW:
                self.write_note(f"To continue from here: --since {self.since}")

    def follow(self, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield events forever. `self.since` advances once all events of a page are handled."""
        while True:
            response = self.fetch(options)
            events = response.json()
            next_link = client.NEXT_LINK.search(response.header("Link"))
            response.expect(isinstance(events, list) and next_link, "this is not a page of a feed.")
            yield from events
            assert next_link is not None
            (self.since,) = parse_qs(urlsplit(next_link[1]).query)["cursor"]
            if len(events) < LIMIT:
                self.wait(options["every"])

    def fetch(self, options: dict[str, Any]) -> Response:
        """Fetch a page, with retries. Raises CommandError for permanent errors and if the start fails."""
        for attempt in count():
            parameter = "since" if ":" in self.since else "cursor"
            path = f"/events?{urlencode({'limit': LIMIT, parameter: self.since})}"
            try:
                response = exchange(self.url, "GET", path, self.headers)
            except UnreachableError as error:
                if not self.connected:
                    raise CommandError(str(error)) from None
                self.back_off(str(error), attempt)
                continue
            if response.status == 200:
                self.connected = True
                return response
            problem = f"{self.url} responded with {response.status}: {get_error_message(response)}"
            if response.status == 410 and self.since != FROM_NOW:
                self.since = FROM_NOW
                if not options["skip_missed"]:
                    raise CommandError(f"{problem} To continue from now, add --skip-missed.")
                self.write_note(f"{problem} Continuing from now.")
            elif response.status in {429, 503} or (response.status >= 500 and self.connected):
                self.back_off(problem, attempt, response.headers["Retry-After"])
            else:
                raise CommandError(problem)
        raise AssertionError("unreachable")

    def forward(self, url: str, event: dict[str, Any]) -> None:
        """Post an event, and retry until it is accepted."""
        body = orjson.dumps(event)
        for attempt in count():
            try:
                response = exchange(url, "POST", "", HEADERS | {"Content-Type": "application/json"}, body)
            except UnreachableError as error:
                self.back_off(f"Event {event['id']} was not forwarded: {error}", attempt)
                continue
            if 200 <= response.status < 300:
                return
            problem = f"Event {event['id']} was not forwarded: {url} responded with {response.status}."
            self.back_off(problem, attempt, response.headers["Retry-After"])

    def back_off(self, problem: str, attempt: int, retry_after: str | None = None) -> None:
        """Report the problem, and wait for Retry-After or with exponential backoff."""
        if re.fullmatch(r"[0-9]{1,5}", retry_after or ""):
            seconds = max(1, int(retry_after or 0))
        else:
            seconds = min(2**attempt, MAX_BACKOFF_SECONDS)
        self.write_note(f"{problem} Retrying in {seconds} s.")
        self.wait(seconds)


def format_event(event: dict[str, Any]) -> str:
    data = orjson.dumps(event["data"]).decode()
    return escape_nonprintable(f"{event['id']} {event['createdAt']} {event['type']} {data}")


def get_error_message(response: Response) -> str:
    """Return the message of the Error in the response, or a substitute if it has none."""
    try:
        return str(response.json()["message"])
    except (ViolationError, LookupError, TypeError):
        return "no reason given."
