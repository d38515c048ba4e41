"""The status page: the state now, samples of the last day, and incidents."""

import re
from collections import deque
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test import Client, RequestFactory

from petstore.health import sampling
from petstore.health.checks import OK, Check
from petstore.health.models import Incident, State, StatusSample
from petstore.health.sampling import RETENTION, measure, write
from petstore.health.views import StatusView
from tests.conftest import COMMITTED
from tests.support.concurrency import run_concurrently

NOW = datetime(2026, 11, 26, 12, 10, tzinfo=UTC)
MINUTE = int(NOW.timestamp()) // 60
UP = {"api": State.UP, "database": State.UP}
DOWN = dict.fromkeys(UP, State.DOWN)


def database_down() -> AbstractContextManager[None]:
    return connection.execute_wrapper(Mock(side_effect=OperationalError))


def get_page(states: dict[str, State] = UP) -> str:
    view: Any = StatusView.as_view(clock=lambda: NOW, measure=lambda: states)
    response = view(RequestFactory().get("/status"))
    return " ".join(response.render().text.split())


def get_parts(page: str) -> dict[str, tuple[str, list[str], str]]:
    """The state now, the bars and the summary of each part."""
    return {
        name: (state, re.findall(r'<li class="([\w-]+)">', bars), summary)
        for name, state, bars, summary in re.findall(
            r'<h3>([\w ]+) <span class="state \w+">([\w ]+)</span></h3> <ol.*?>(.*?)</ol> <p>(.*?)</p>',
            page,
        )
    }


def add_samples(start: int, count: int, states: dict[str, State] = UP) -> None:
    samples = [StatusSample(minute=minute, **states) for minute in range(start, start + count)]
    StatusSample.objects.bulk_create(samples)


# --- The page ------------------------------------------------------------------------------------


def test_page_reports_the_state_now(client: Client, db: None) -> None:
    page = client.get("/status").text
    assert "The service is ready." in page
    assert page.count("Up now") == 2
    assert client.get("/").text.count('href="/status"') == 2


def test_minutes_without_a_sample_have_no_data(db: None) -> None:
    add_samples(MINUTE - 70, 59)  # From 11:00 to 11:58.
    state, bars, summary = get_parts(get_page())["API"]
    assert (state, bars) == ("Up now", ["no-data"] * 25)
    assert summary == "Up in 100% of the measured minutes: 1,391 min without data, 59 min up."
    add_samples(MINUTE - 11, 1)
    assert get_parts(get_page())["API"][1] == ["no-data"] * 23 + ["up", "no-data"]


def test_without_any_sample_there_is_no_percentage(db: None) -> None:
    assert get_parts(get_page())["Database"][2] == "1,450 min without data."


def test_bars_show_the_worst_minute_of_an_hour(db: None) -> None:
    add_samples(MINUTE - 70, 67)
    add_samples(MINUTE - 3, 1, UP | {"database": State.DEGRADED})
    add_samples(MINUTE - 2, 1, DOWN)
    add_samples(MINUTE - 1, 1, UP | {"database": State.DEGRADED})
    page = get_page(DOWN)
    parts = get_parts(page)
    assert parts["API"][:2] == ("Down now", ["no-data"] * 23 + ["up", "down"])
    assert parts["API"][2].startswith("Up in 98.57% of the measured minutes: 1 min down, ")
    assert "1 min down, 2 min degraded" in parts["Database"][2]
    cells = "<td>1 min down, 9 min up</td><td>1 min down, 2 min degraded, 7 min up</td>"
    assert f"12:00 UTC</th> {cells}" in page


def test_samples_outside_the_period_are_not_shown(db: None) -> None:
    add_samples(MINUTE, 5, DOWN)
    add_samples(MINUTE - 24 * 60 - 11, 1, DOWN)
    assert get_parts(get_page())["API"][2] == "1,450 min without data."


@COMMITTED
def test_page_works_without_the_database() -> None:
    add_samples(MINUTE - 1, 1)
    with database_down():
        page = get_page(DOWN)
    assert page.count("Down now") == 2
    assert "The history can't be shown while the database is unavailable." in page
    assert "Incidents can't be shown while the database is unavailable." in page
    assert "min up" not in page
    assert "There were no incidents" not in page


# --- Samples -------------------------------------------------------------------------------------


@COMMITTED
def test_concurrent_writers_write_one_sample_a_minute() -> None:
    unwritten = [MINUTE - 1, MINUTE]  # As after an outage.

    def write_both() -> None:
        write(StatusSample(minute=unwritten[1], **UP), deque([StatusSample(minute=unwritten[0], **DOWN)]))

    run_concurrently(*[write_both] * 4)
    assert [sample.minute for sample in StatusSample.objects.order_by("minute")] == unwritten


@COMMITTED
def test_first_sample_of_a_minute_stays() -> None:
    for states in (UP, DOWN):
        write(StatusSample(minute=MINUTE, **states), deque())
    assert StatusSample.objects.get().api == State.UP


@COMMITTED
def test_outage_of_the_database_is_written_after_it() -> None:
    unwritten: deque[StatusSample] = deque()
    write(StatusSample(minute=MINUTE - 4, **UP), unwritten)
    for minute in (MINUTE - 3, MINUTE - 2):
        with database_down(), pytest.raises(OperationalError):
            write(StatusSample(minute=minute, **DOWN), unwritten)
    assert "1 min up" in get_page()
    write(StatusSample(minute=MINUTE - 1, **UP), unwritten)
    assert "2 min down, 1,446 min without data, 2 min up" in get_parts(get_page())["Database"][2]
    assert not unwritten


@COMMITTED
def test_writer_prunes_old_samples() -> None:
    add_samples(MINUTE - RETENTION - 5, 10)
    write(StatusSample(minute=MINUTE, **UP), deque())
    assert StatusSample.objects.earliest("minute").minute == MINUTE - RETENTION


def replace_checks(monkeypatch: pytest.MonkeyPatch, **results: str) -> None:
    checks = {name: Check(partial(str, result)) for name, result in results.items()}
    monkeypatch.setattr(sampling, "checks", checks)


@pytest.mark.parametrize(
    ("database", "migrations", "states"),
    [
        (OK, OK, ("up", "up")),
        (OK, "missing", ("down", "up")),
        ("unreachable", "unknown", ("down", "down")),
    ],
)
def test_states_follow_the_checks(
    monkeypatch: pytest.MonkeyPatch, database: str, migrations: str, states: tuple[str, ...]
) -> None:
    replace_checks(monkeypatch, database=database, migrations=migrations)
    assert tuple(measure().values()) == states


def test_slow_database_is_degraded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SLOW_SECONDS", 0)
    replace_checks(monkeypatch, database=OK, migrations=OK)
    assert measure() == {"api": "up", "database": "degraded"}


# --- Incidents -----------------------------------------------------------------------------------


def add_incident(title: str, start: timedelta, end: timedelta | None = None, text: str = "Text.") -> None:
    ends_at = None if end is None else NOW + end
    Incident.objects.create(title=title, text=text, starts_at=NOW + start, ends_at=ends_at)


def test_incidents_are_shown_from_their_start_until_30_days_after_their_end(db: None) -> None:
    assert "There were no incidents in the last 30 days." in get_page()
    hour, day = timedelta(hours=1), timedelta(days=1)
    add_incident("Future", hour)
    add_incident("Old", -32 * day, -31 * day)
    add_incident("Recent", -2 * hour, -hour)
    add_incident("Last month", -40 * day, -29 * day)
    add_incident("Open", -3 * day)
    add_incident("Ends soon", -hour, hour)
    shown = re.findall(r"<article class=\"incident\"> <h3>(.*?)</h3>", get_page())
    current = ' <span class="state down">Current</span>'
    assert shown == [f"Open{current}", f"Ends soon{current}", "Recent", "Last month"]
    assert "2026-11-26 10:10 UTC to 2026-11-26 11:10 UTC" in get_page()


def test_incidents_are_plain_text(db: None) -> None:
    add_incident("<b>&", -timedelta(hours=1), text="<script>alert(1)</script>\n\nSecond {{ paragraph }}")
    page = get_page()
    assert "<h3>&lt;b&gt;&amp; " in page
    assert "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p> <p>Second {{ paragraph }}</p>" in page


def test_incident_cannot_end_before_it_starts(db: None) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        add_incident("Wrong", timedelta(), -timedelta(hours=1))
