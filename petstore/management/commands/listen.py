"""Follow the feed of events on the terminal, and hand each event to a program that is being developed."""

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

from petstore.conformance.client import (
    NEXT,
    WRONG_OPTIONS,
    BrokenError,
    Response,
    UnreachableError,
    add_key,
    address_and_key,
    exchange,
)
from petstore.environment import is_page_url
from petstore.management.base import JsonCommand, visible

LIMIT = 100
FROM_NOW = "9999-12-31T23:59:59Z"  # Nothing has happened since then: so the feed's end.
LONGEST_PAUSE = 30  # Seconds between attempts, unless the service names a longer time.
AGENT = {"User-Agent": "petstore-listen"}


class Command(JsonCommand):
    help = (
        "Show what happens as it happens, one line an event: its number, time, type and data. For "
        "development: --forward hands each event to a program of yours, in order and until it accepts it. "
        "Each look at the feed counts as a request; Ctrl-C ends it."
    )
    examples = """
        PETSTORE_KEY=psk_live_... manage.py listen
        manage.py listen https://api.example.com/v1 --forward http://localhost:3000/events
        manage.py listen --since 2026-11-23T09:30:00Z --json
        """
    statuses = {
        0: "Stopped by Ctrl-C; standard error says where to go on.",
        1: "The service refuses, or could not be reached to begin with.",
    }
    wait = staticmethod(time.sleep)

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add = parser.add_argument
        text = "The API's address, which ends in /v1. Default: that of this deployment (BASE_URL)."
        add("url", metavar="URL", nargs="?", default=settings.BASE_URL, help=text)
        add_key(parser, "An API key with the scope events:read.")
        text = "Begin where an earlier run ended, or at a time such as 2026-11-23T09:30:00Z. Default: now."
        add("--since", metavar="CURSOR", default=FROM_NOW, help=text)
        text = "If events since then are kept no longer, go on from now instead of stopping."
        add("--skip-missed", action="store_true", help=text)
        text = "Post each event as JSON to this address, again and again until the answer is a 2xx."
        add("--forward", metavar="URL", help=text)
        text = "Look every so many seconds while nothing happens. Default 2."
        add("--every", type=float, default=2, metavar="SECONDS", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        forward = options["forward"]
        if forward and not is_page_url(forward):
            raise CommandError(
                f"--forward {forward!r} is not an http(s) address.", returncode=WRONG_OPTIONS
            )
        if not options["every"] >= 0.1:
            raise CommandError("--every must be 0.1 or more.", returncode=WRONG_OPTIONS)
        self.url, key = address_and_key(options)
        self.headers = AGENT | {"Authorization": f"Bearer {key}"}
        self.since, self.began = options["since"], False
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # Whoever says it: end in order.
        try:
            for event in self.follow(options):
                self.answer(options, event, one_line(event))
                if forward:
                    self.forward(forward, event)
        except KeyboardInterrupt:
            self.say("")  # Below the terminal's ^C.
        except (BrokenError, LookupError, TypeError, ValueError) as error:
            raise CommandError(f"{self.url} gives no feed of events: {error}") from None
        finally:
            signal.signal(signal.SIGTERM, before)
            if self.since != FROM_NOW:
                self.say(f"To go on from here: --since {self.since}")

    def follow(self, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield each event, for ever; `self.since` is behind those of a page once all are handled."""
        while True:
            answer = self.ask(options)
            events = answer.json()
            following = NEXT.search(answer.header("Link"))
            answer.expect(isinstance(events, list) and following, "this is no page of a feed.")
            yield from events
            assert following is not None
            (self.since,) = parse_qs(urlsplit(following[1]).query)["cursor"]
            if len(events) < LIMIT:
                self.wait(options["every"])

    def ask(self, options: dict[str, Any]) -> Response:
        """Return a page, however long it takes. Raises CommandError where trying again is of no use."""
        for attempt in count():
            name = "since" if ":" in self.since else "cursor"
            path = f"/events?{urlencode({'limit': LIMIT, name: self.since})}"
            try:
                answer = exchange(self.url, "GET", path, self.headers)
            except UnreachableError as error:
                if not self.began:
                    raise CommandError(str(error)) from None
                self.pause(str(error), attempt)
                continue
            if answer.status == 200:
                self.began = True
                return answer
            problem = f"{self.url} answers {answer.status}: {message_of(answer)}"
            if answer.status == 410 and self.since != FROM_NOW:
                self.since = FROM_NOW
                if not options["skip_missed"]:
                    raise CommandError(f"{problem} To go on from now, add --skip-missed.")
                self.say(f"{problem} Going on from now.")
            elif answer.status in {429, 503} or (answer.status >= 500 and self.began):
                self.pause(problem, attempt, answer.headers["Retry-After"])
            else:
                raise CommandError(problem)
        raise AssertionError

    def forward(self, url: str, event: dict[str, Any]) -> None:
        """Post an event until it is accepted."""
        body = orjson.dumps(event)
        for attempt in count():
            try:
                answer = exchange(url, "POST", "", AGENT | {"Content-Type": "application/json"}, body)
            except UnreachableError as error:
                self.pause(f"Event {event['id']} is not forwarded: {error}", attempt)
                continue
            if 200 <= answer.status < 300:
                return
            problem = f"Event {event['id']} is not forwarded: {url} answers {answer.status}."
            self.pause(problem, attempt, answer.headers["Retry-After"])

    def pause(self, problem: str, attempt: int, retry_after: str | None = None) -> None:
        """Say what is wrong, and wait: as long as was asked for, or longer each time."""
        asked = retry_after is not None and re.fullmatch(r"[0-9]{1,5}", retry_after)
        seconds = max(1, int(retry_after or 0)) if asked else min(2**attempt, LONGEST_PAUSE)
        self.say(f"{problem} Trying again in {seconds} s.")
        self.wait(seconds)


def one_line(event: dict[str, Any]) -> str:
    """Return an event for people."""
    data = orjson.dumps(event["data"]).decode()
    return visible(f"{event['id']} {event['createdAt']} {event['type']} {data}")


def message_of(answer: Response) -> str:
    """Return an Error's message, or nothing where the answer has none."""
    try:
        return str(answer.json()["message"])
    except (BrokenError, LookupError, TypeError):
        return "no reason is given."
