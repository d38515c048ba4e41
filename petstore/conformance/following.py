"""Checks that the feed tells of what the run has written, for `--write` only."""

import time
from typing import Any

from petstore.conformance.answers import BrokenError, NotRunError
from petstore.conformance.checks import check
from petstore.conformance.session import Session

# Seconds before each look: events are in the feed shortly after what they tell of.
PAUSES = (0, 0.3, 0.3, 0.5, 1, 2, 3, 5)
REQUESTS = len(PAUSES) + 3
PAGE = 100
SUBJECTS = {"pet": "id", "order": "petId"}  # With the member that has the pet's id.


@check("D40, D41", writes=True)
def feed_tells_once_of_all_that_was_written(session: Session) -> None:
    """The feed tells of the new pet and its orders: each step once, in order, and so a second time."""
    if session.feed_end is None or len(session.written) < 2:
        raise NotRunError("Other checks did not get so far that there is something to follow.")
    session.spare_quota(REQUESTS)
    events, path = told_by_now(session, session.feed_end)
    events += session.feed(path)[0]  # What comes a second time may come late.
    ids = [event["id"] for event in events]
    if ids != sorted(set(ids)):
        raise BrokenError(f"GET /events: ids repeat, or don't ascend, over pages: {ids}.")
    for subject in SUBJECTS:
        compare(steps(session, events, subject), written(session, subject))
    again = session.feed(session.feed_end)[0]
    if again[: len(events)] != events[: max(len(again), PAGE)]:
        raise BrokenError("GET /events: the same page has other events, or another order, a second time.")
    orders = session.feed(f"{session.feed_end}&type=order")[0]
    if strange := {event["type"] for event in orders if not event["type"].startswith("order.")}:
        raise BrokenError(f"GET /events?type=order: events of {', '.join(sorted(strange))} came.")
    compare(steps(session, orders, "order"), written(session, "order"))


def told_by_now(session: Session, path: str) -> tuple[list[dict[str, Any]], str]:
    """Follow the feed until all is told, or some seconds; return the events, and where to go on."""
    events: list[dict[str, Any]] = []
    for pause in PAUSES:
        time.sleep(pause)
        page, path = session.feed(path)
        events += page
        told = sum(len(steps(session, events, subject)) for subject in SUBJECTS)
        if told >= len(session.written):
            break
    return events, path


def steps(session: Session, events: list[dict[str, Any]], subject: str) -> list[tuple[str, Any]]:
    """Return types and data of the events about the new pet, or about its orders."""
    _, first = session.written[0]
    return [
        (event["type"], event["data"])
        for event in events
        if event["data"].get(subject, {}).get(SUBJECTS[subject]) == first["pet"]["id"]
    ]


def written(session: Session, subject: str) -> list[tuple[str, Any]]:
    return [step for step in session.written if subject in step[1]]


def compare(came: list[tuple[str, Any]], wanted: list[tuple[str, Any]]) -> None:
    """Raise BrokenError unless these steps came."""
    if came != wanted:
        raise BrokenError(f"GET /events: it tells {came}, not {wanted}.")
