"""Print the feed of events on the terminal, and forward it to a program under development."""

import os
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

from petstore.addresses import is_api_url, is_page_url, to_ascii
from petstore.management.base import JsonCommand, escape_nonprintable
from petstore.management.http_client import Response, UnreachableError, send

LIMIT = 100
FROM_NOW = "9999-12-31T23:59:59Z"  # A time in the future selects the end of the feed.
Headers = dict[str, str]
MAX_BACKOFF_SECONDS = 30  # Unless Retry-After is longer.
HEADERS = {"User-Agent": "petstore-listen", "Content-Type": "application/json"}


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
        text = "The API's address, ending in /v1. Default: BASE_URL."
        parser.add_argument("url", metavar="URL", nargs="?", default=settings.BASE_URL, help=text)
        text = "An API key with the scope events:read. Prefer PETSTORE_KEY, which shells do not record."
        parser.add_argument("--key", default=os.environ.get("PETSTORE_KEY", ""), help=text)
        text = "Continue an earlier run, or start at a time such as 2026-11-23T09:30:00Z. Default: now."
        parser.add_argument("--since", metavar="CURSOR", default=FROM_NOW, help=text)
        text = "Post each event as JSON to this address, and retry until the response is 2xx."
        parser.add_argument("--forward", metavar="URL", help=text)
        text = "Poll interval once all events have been read. Default: 2."
        parser.add_argument("--every", type=float, default=2, metavar="SECONDS", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        url, forward, key = options["url"].rstrip("/"), options["forward"], options["key"].strip()
        for is_valid, problem in (
            (is_api_url(url), f"{url!r} is not an API address such as https://api.example.com/v1."),
            (key and key.isascii() and key.isprintable(), "Pass a key with --key or PETSTORE_KEY."),
            (not forward or is_page_url(forward), f"--forward {forward!r} is not an http(s) address."),
            (options["every"] >= 0.1, "--every must be 0.1 or more."),
        ):
            if not is_valid:
                raise CommandError(problem, returncode=2)
        self.since, self.connected = options["since"], False
        # Treat SIGTERM like Ctrl-C.
        previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
        headers = HEADERS | {"Authorization": f"Bearer {key}"}
        try:
            for event in self.follow(to_ascii(url), headers, options["every"]):
                data = orjson.dumps(event["data"]).decode()
                line = f"{event['id']} {event['createdAt']} {event['type']} {data}"
                self.write_result(event, escape_nonprintable(line))
                if forward:
                    prefix = f"Event {event['id']} was not forwarded: "
                    self.request(prefix, "POST", to_ascii(forward), HEADERS, orjson.dumps(event))
        except KeyboardInterrupt:
            self.write_note("")  # End the line on which the terminal shows ^C.
        except (LookupError, TypeError, ValueError) as error:
            raise CommandError(f"{url} has no valid feed of events: {error}") from None
        finally:
            signal.signal(signal.SIGTERM, previous_handler)
            if self.since != FROM_NOW:
                self.write_note(f"To continue from here: --since {self.since}")

    def follow(self, url: str, headers: Headers, interval: float) -> Iterator[dict[str, Any]]:
        """Yield events forever. `self.since` advances once all events of a page are handled."""
        while True:
            parameter = "since" if ":" in self.since else "cursor"
            query = urlencode({"limit": LIMIT, parameter: self.since})
            response = self.request("", "GET", f"{url}/events?{query}", headers)
            self.connected = True
            events, link = response.json(), re.search("<([^<>]*)>", response.headers.get("Link", ""))
            if not (isinstance(events, list) and link):
                raise ValueError("this is not a page of a feed.")
            yield from events
            (self.since,) = parse_qs(urlsplit(link[1]).query)["cursor"]
            if len(events) < LIMIT:
                self.wait(interval)

    def request(self, prefix: str, method: str, url: str, headers: Headers, body: bytes = b"") -> Response:
        """Send a request until the response is 2xx. Raises CommandError if a GET can't succeed."""
        for attempt in count():
            retry_after = ""
            try:
                response = send(method, url, headers, body)
            except UnreachableError as error:
                problem, is_permanent = str(error), not self.connected
            else:
                status = response.status
                if 200 <= status < 300:
                    return response
                problem = f"{url.partition('?')[0]} responded with {status}: {get_reason(response)}"
                is_permanent = status not in {429, 503} and (status < 500 or not self.connected)
                retry_after = response.headers.get("Retry-After", "")
            if is_permanent and method == "GET":
                raise CommandError(problem)
            is_number = re.fullmatch(r"[0-9]{1,5}", retry_after)
            seconds = max(1, int(retry_after)) if is_number else min(2**attempt, MAX_BACKOFF_SECONDS)
            self.write_note(f"{prefix}{problem} Retrying in {seconds} s.")
            self.wait(seconds)
        raise AssertionError("unreachable")


def get_reason(response: Response) -> str:
    """Return the message of the Error in the response, if it is one."""
    try:
        return str(response.json()["message"])
    except (LookupError, TypeError, ValueError):
        return "no reason given."
