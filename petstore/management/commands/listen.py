"""Print the feed of events on the terminal, and forward it to a program under development."""

import os
import re
import signal
from argparse import ArgumentParser
from time import sleep
from typing import Any
from urllib.parse import unquote, urlencode

import orjson
from django.conf import settings
from django.core.management.base import CommandError

from petstore.addresses import is_api_url, to_ascii
from petstore.management.base import JsonCommand
from petstore.management.http_client import Response, UnreachableError, send

LIMIT = 100
FROM_NOW = "9999-12-31T23:59:59Z"  # A time in the future selects the end of the feed.
POLL_SECONDS = RETRY_SECONDS = 2


class Command(JsonCommand):
    help = (
        "Print events as they happen, one per line, as JSON. Each poll counts as a request. "
        "In development, --forward posts each event to your program, in order, until it is accepted."
    )
    examples = """
        PETSTORE_KEY=psk_live_... manage.py listen
        manage.py listen https://api.example.com/v1 --forward http://localhost:3000/events
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        text = "The API's address, ending in /v1. Default: BASE_URL."
        parser.add_argument("url", metavar="URL", nargs="?", default=settings.BASE_URL, help=text)
        text = "An API key with the scope events:read. Prefer PETSTORE_KEY, which shells do not record."
        parser.add_argument("--key", default=os.environ.get("PETSTORE_KEY", ""), help=text)
        text = "Continue an earlier run, or start at a time such as 2026-11-23T09:30:00Z. Default: now."
        parser.add_argument("--since", metavar="CURSOR", default=FROM_NOW, help=text)
        text = "Post each event as JSON to this address, and retry until the response is 2xx."
        parser.add_argument("--forward", metavar="URL", help=text)

    def handle(self, *, url: str, key: str, since: str, forward: str | None, **options: Any) -> None:
        if not is_api_url(url):
            raise CommandError(f"{url!r} is not an API address such as https://api.example.com/v1.")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # Like Ctrl-C.
        try:
            while True:
                query = urlencode({"limit": LIMIT, "since" if ":" in since else "cursor": since})
                headers = {"Authorization": f"Bearer {key}"}
                page = self.request("GET", f"{to_ascii(url)}/events?{query}", headers)
                for event in (events := page.json()):
                    self.write_result(event, orjson.dumps(event).decode())
                    if forward:
                        headers = {"Content-Type": "application/json"}
                        self.request("POST", forward, headers, orjson.dumps(event))
                since = unquote(re.findall("[?&]cursor=([^&>]+)", page.headers["Link"])[0])
                if len(events) < LIMIT:
                    sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            self.write_note(f"\nTo continue from here: --since {since}")
        except (LookupError, TypeError, ValueError) as error:
            raise CommandError(f"{url} has no valid feed of events: {error}") from None

    def request(self, method: str, url: str, headers: dict[str, str], body: bytes = b"") -> Response:
        """Send a request until the response is 2xx. Raises CommandError if the service rejects a GET."""
        while True:
            try:
                response = send(method, url, headers, body)
            except UnreachableError as error:
                problem, seconds = str(error), RETRY_SECONDS
            else:
                if 200 <= response.status < 300:
                    return response
                text = response.body[:300].decode(errors="replace")
                problem = f"{url.partition('?')[0]} responded with {response.status}: {text}"
                if method == "GET" and response.status < 500 and response.status != 429:
                    raise CommandError(problem)
                seconds = int(response.headers.get("Retry-After", RETRY_SECONDS))
            self.write_note(f"{problem} Retrying in {seconds} s.")
            sleep(seconds)
