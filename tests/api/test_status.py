"""The status page: the last 24 hours and 90 days, samples, and incidents."""

import re
from collections import deque
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from petstore.health import sampling
from petstore.health.checks import OK, Check
from petstore.health.history import MINUTES_PER_DAY
from petstore.health.models import DAYS, Incident, Stage, State, StatusDay, StatusSample
from petstore.health.sampling import RETENTION, measure, write
from petstore.health.views import StatusView
from tests.conftest import COMMITTED
from tests.support.concurrency import run_concurrently

NOW = datetime(2026, 11, 26, 12, 10, tzinfo=UTC)
MINUTE = int(NOW.timestamp()) // 60
TODAY = MINUTE // MINUTES_PER_DAY
UP = {"api": State.UP, "database": State.UP}
DOWN = dict.fromkeys(UP, State.DOWN)


def database_down() -> AbstractContextManager[None]:
    return connection.execute_wrapper(Mock(side_effect=OperationalError))


def get_page(states: dict[str, State] = UP) -> str:
    view: Any = StatusView.as_view(clock=lambda: NOW, measure=lambda: states)
    response = view(RequestFactory().get("/status"))
    return " ".join(response.render().text.split())


def get_parts(page: str, unit: str = "hour") -> dict[str, tuple[list[str], str]]:
    """The bars and the summary of each part. A span of several hours or days is one bar."""
    section = page.split(f'<h2 id="{unit}s">')[1].split("<details>", maxsplit=1)[0]
    return {
        name: (re.findall(r'<td class="([\w-]+)"', bars), summary)
        for name, bars, summary in re.findall(
            r"<h3>([\w ]+)</h3> <table.*?>(.*?)</table> (?:<p>(.*?)</p>)?", section
        )
    }


def add_samples(start: int, count: int, states: dict[str, State] = UP) -> None:
    samples = [StatusSample(minute=minute, **states) for minute in range(start, start + count)]
    StatusSample.objects.bulk_create(samples)


# --- The page ------------------------------------------------------------------------------------


def test_bars_show_the_worst_minute_of_an_hour(db: None) -> None:
    add_samples(MINUTE - 70, 67)
    add_samples(MINUTE - 3, 1, UP | {"database": State.DEGRADED})
    add_samples(MINUTE - 2, 1, DOWN)
    add_samples(MINUTE - 1, 1, UP | {"database": State.DEGRADED})
    page = get_page(DOWN)
    parts = get_parts(page)
    assert page.count("Down now") == 2
    assert parts["API"][0] == ["no-data", "up", "down"]
    assert parts["API"][1] == "98.57% up, 1 minute down, 22 hours 50 minutes without data."
    summary = "95.71% up, 1 minute down, 2 minutes degraded, 22 hours 50 minutes without data."
    assert parts["Database"][1] == summary
    cells = "<td>90% up, 1 minute down</td><td>70% up, 1 minute down, 2 minutes degraded</td>"
    assert f"12:00 UTC</th> {cells}" in page


def add_day(days_ago: int, **counts: int) -> None:
    fields = [f"{part}_{state}" for part in UP for state in State]
    StatusDay.objects.create(day=TODAY - days_ago, **dict.fromkeys(fields, 0) | counts)


def test_bars_show_the_last_90_days(db: None) -> None:
    add_day(90, api_down=1440)
    add_day(89, api_up=1439, api_down=1, database_up=1440)
    add_day(30, api_up=1440, database_up=720)
    add_samples(TODAY * MINUTES_PER_DAY - 1, 1 + 12 * 60 + 10)
    parts = get_parts(get_page(), "day")
    assert parts["API"][0] == ["down", "no-data", "up", "no-data", "gaps", "up"]
    assert parts["Database"][0] == ["up", "no-data", "gaps", "no-data", "gaps", "up"]
    assert parts["API"][1] == "99.97% up, 1 minute down, 86 days 23 hours without data."


def test_page_needs_five_queries(db: None) -> None:
    for days_ago in range(1, 90):
        add_day(days_ago, api_up=1440, database_up=1440)
    for hours in range(3):
        add_incident("Slow", timedelta(hours=-hours), timedelta())
    with CaptureQueriesContext(connection) as queries:
        get_page()
    assert len(queries) == 5


@COMMITTED
def test_page_works_without_the_database() -> None:
    add_samples(MINUTE - 1, 1)
    with database_down():
        page = get_page(DOWN)
    assert page.count("Down now") == 2
    for shown in ("The history", "Incidents"):
        assert f"{shown} can't be shown while the database is unavailable." in page
    assert "% up" not in page
    assert "There were no incidents" not in page


# --- Samples -------------------------------------------------------------------------------------


@COMMITTED
def test_concurrent_writers_write_one_sample_a_minute_and_the_first_stays() -> None:
    unwritten = [MINUTE - 1, MINUTE]  # As after an outage.

    def write_both() -> None:
        write(StatusSample(minute=unwritten[1], **UP), deque([StatusSample(minute=unwritten[0], **DOWN)]))

    run_concurrently(*[write_both] * 4)
    write(StatusSample(minute=MINUTE, **DOWN), deque())
    samples = StatusSample.objects.order_by("minute").values_list("minute", "api")
    assert list(samples) == [(MINUTE - 1, State.DOWN), (MINUTE, State.UP)]


@COMMITTED
def test_outage_of_the_database_is_written_after_it() -> None:
    unwritten: deque[StatusSample] = deque()
    write(StatusSample(minute=MINUTE - 4, **UP), unwritten)
    for minute in (MINUTE - 3, MINUTE - 2):
        with database_down(), pytest.raises(OperationalError):
            write(StatusSample(minute=minute, **DOWN), unwritten)
    assert StatusSample.objects.count() == 1
    write(StatusSample(minute=MINUTE - 1, **UP), unwritten)
    summary = get_parts(get_page())["Database"][1]
    assert summary == "50% up, 2 minutes down, 23 hours 56 minutes without data."
    assert not unwritten


@COMMITTED
def test_days_are_rolled_up_once_they_have_left_the_24_hours() -> None:
    first = (TODAY - 1) * MINUTES_PER_DAY
    add_samples(first, 1438)
    add_samples(first + 1438, 1, UP | {"database": State.DEGRADED})
    add_samples(first + 1439, 2, DOWN)
    add_day(DAYS + 1)
    last = first + MINUTES_PER_DAY + RETENTION
    write(StatusSample(minute=last - 1, **UP), deque())
    assert StatusSample.objects.earliest("minute").minute == first
    run_concurrently(*[lambda: write(StatusSample(minute=last, **UP), deque())] * 4)
    assert StatusSample.objects.earliest("minute").minute == first + MINUTES_PER_DAY
    assert list(StatusDay.objects.values_list()) == [(TODAY - 1, 1439, 0, 1, 1438, 1, 1)]


@pytest.mark.parametrize(
    ("database", "migrations", "slow_seconds", "states"),
    [
        (OK, OK, 60, ["up", "up"]),
        (OK, OK, 0, ["up", "degraded"]),
        (OK, "missing", 60, ["down", "up"]),
        ("unreachable", "unknown", 60, ["down", "down"]),
    ],
)
def test_states_follow_the_checks(
    monkeypatch: pytest.MonkeyPatch, database: str, migrations: str, slow_seconds: int, states: list[str]
) -> None:
    monkeypatch.setattr(sampling, "SLOW_SECONDS", slow_seconds)
    results = {"database": database, "migrations": migrations}
    checks = {name: Check(partial(str, result)) for name, result in results.items()}
    monkeypatch.setattr(sampling, "checks", checks)
    assert list(measure().values()) == states


# --- Incidents -----------------------------------------------------------------------------------


def add_incident(
    title: str, start: timedelta, end: timedelta | None = None, text: str = "Text.", **fields: Any
) -> Incident:
    incident = Incident.objects.create(title=title, **fields)
    incident.updates.create(posted_at=NOW + start, text=text)
    if end is not None:
        incident.updates.create(stage=Stage.RESOLVED, posted_at=NOW + end, text="Done.")
    return incident


def get_incidents(page: str) -> list[list[str]]:
    """The titles of the open and of the past incidents."""
    return [
        re.findall(r"<h\d>([^<]*?) <span class=\"state \w+\">Impact", part)
        for part in page.split('<h2 id="past">')
    ]


def test_incidents_are_shown_from_their_first_update_until_90_days_after_their_end(db: None) -> None:
    hour, day = timedelta(hours=1), timedelta(days=1)
    Incident.objects.create(title="Unpublished")
    add_incident("Future", hour)
    add_incident("Old", -92 * day, -91 * day)
    add_incident("Recent", -2 * hour, -hour)
    add_incident("Long", -100 * day, -89 * day)
    add_incident("Open", -91 * day)
    add_incident("Ends soon", -hour, hour)
    reopened = add_incident("Reopened", -3 * day, -2 * day)
    reopened.updates.create(posted_at=NOW - day, text="It is back.")
    page = get_page()
    assert get_incidents(page) == [["Ends soon", "Reopened", "Open"], ["Recent", "Long"]]
    assert 'The service is ready, but <a href="/status#incidents">3 incidents are open</a>.' in page


def test_incidents_are_at_most_the_newest(monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    monkeypatch.setattr("petstore.health.models.MAX_INCIDENTS", 2)
    for title in ("First", "Second", "Third"):
        add_incident(title, -timedelta(hours=1))
    assert get_incidents(get_page()) == [["Third", "Second"], []]
    assert Incident.objects.count_open(NOW) == 2
