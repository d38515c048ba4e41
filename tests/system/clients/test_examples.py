"""Every example of the documentation runs as shown on its page."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.support.live import Service, live_service
from tests.system.clients.faulty_proxy import drop_connection, forward, proxy, reject
from tests.system.clients.outputs import (
    CLIENT_QUICKSTART,
    NAMES,
    QUICKSTART,
    RUN,
    attempt,
    copy_from_pages,
    fill,
    issue_key_with_order,
    output,
    place_an_order,
    prepare,
    render_as_template,
    run,
    shape,
    wait_for_event,
)

ONE_A_MINUTE = ("--per-minute", "1", "--per-day", "1000")
WAITING = [name for name in NAMES if name.startswith(("backoff", "retries", "retry_"))]
PLACING, CANCELLING = ([name for name in NAMES if f"{step}_order" in name] for step in ("place", "cancel"))
PAGINATION, EVENTS = ([f"{example}.{suffix}" for suffix in RUN] for example in ("pagination", "events"))
# The tests of what these do with faults, or in several runs, compare the output as well.
COMPARED_BELOW = {*WAITING, *PLACING, *CANCELLING, *PAGINATION, *EVENTS}
REGENERATE = (
    "If the change is intended, regenerate the sample outputs and read their diff:\n"
    ".venv/bin/python -m tests.system.clients.outputs"
)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with live_service(tmp_path_factory.mktemp("production"), workers=1) as service:
        yield service


@pytest.fixture(scope="module")
def key(deployment: Service) -> str:
    """A key of the deployment, which is filled with demo data."""
    return fill(deployment)


@pytest.fixture(scope="module")
def examples(deployment: Service, key: str) -> dict[str, str]:
    """The examples as a reader copies them from the pages, by file."""
    return copy_from_pages(deployment)


def test_every_example_is_run(deployment: Service, examples: dict[str, str]) -> None:
    assert all(deployment.url in code for code in examples.values())
    assert sorted(examples) == NAMES == sorted(path.stem for path in output("").parent.iterdir())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COMPARED_BELOW])
def test_example_works_as_documented(
    deployment: Service, examples: dict[str, str], key: str, tmp_path: Path, name: str
) -> None:
    printed = run(name, examples[name], prepare(deployment, name, key, tmp_path), tmp_path)
    check_output(name, printed, deployment)


def check_output(name: str, printed: str, deployment: Service) -> None:
    assert shape(render_as_template(printed, deployment)) == shape(output(name).read_text()), REGENERATE


@pytest.mark.parametrize("suffix", RUN)
def test_sample_outputs_of_the_quickstart_agree(suffix: str) -> None:
    listed, placed, cancelled = (output(f"{step}{suffix}").read_text() for step in QUICKSTART)
    first = re.findall(r"\d+", listed)[0]
    [(order, pet)] = re.findall(r"""\bid["']?: ?(\d+),\s*["']?petId["']?: ?(\d+)""", placed)
    assert pet == first
    assert suffix == "sh" or cancelled == f"{order} 204\n"  # curl prints no id.


@pytest.mark.parametrize("suffix", ["py", "mjs"])
def test_sample_outputs_of_the_quickstart_with_a_package_agree(suffix: str) -> None:
    listed, placed, cancelled = (output(f"{step}{suffix}").read_text() for step in CLIENT_QUICKSTART)
    name, order, status = placed.split()
    assert (name, status) == (listed.splitlines()[0].split()[1], "placed")
    assert cancelled == f"{order} cancelled\n"


@pytest.mark.parametrize("placing", PLACING)
def test_example_cancels_only_the_order_that_was_placed(
    deployment: Service, examples: dict[str, str], tmp_path: Path, placing: str
) -> None:
    cancelling = placing.replace("place_", "cancel_")
    key = issue_key_with_order(deployment, f"Cancels its own {placing}", tmp_path)
    with deployment.client(key) as client:
        check_output(placing, run(placing, examples[placing], key, tmp_path), deployment)
        place_an_order(client)
        check_output(cancelling, run(cancelling, examples[cancelling], key, tmp_path), deployment)
        states = [order["status"] for order in client.get("/store/orders").json()]
    assert states == ["placed", "cancelled", "placed"]


@pytest.mark.parametrize("suffix", RUN)
def test_example_says_that_there_is_nothing_to_cancel(
    deployment: Service, examples: dict[str, str], key: str, tmp_path: Path, suffix: str
) -> None:
    name = f"cancel_order.{suffix}"
    done = attempt(name, examples[name], key, tmp_path)
    assert "There is nothing to cancel: place an order first." in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["place_order.py", "pagination.sh", "events.sh"])
def test_example_shows_the_error_of_an_invalid_key(
    deployment: Service, examples: dict[str, str], tmp_path: Path, name: str
) -> None:
    done = attempt(name, examples[name], "wrong", tmp_path)
    assert '"code":"invalid_api_key"' in done.stdout + done.stderr


@pytest.mark.parametrize("name", PAGINATION)
def test_example_of_pagination_reads_every_page(
    deployment: Service, examples: dict[str, str], key: str, tmp_path: Path, name: str
) -> None:
    printed = run(name, examples[name], key, tmp_path)
    check_output(name, printed, deployment)
    ids = [
        int(found)
        for found in re.findall(r'^(\d+) |"id":(\d+)', printed, re.MULTILINE)
        for found in found
        if found
    ]
    assert len(ids) > 100
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("name", EVENTS)
def test_example_of_events_continues_where_it_stopped_also_after_a_304(
    deployment: Service, examples: dict[str, str], tmp_path: Path, name: str
) -> None:
    key = str(deployment.issue(f"Restarted {name}")["key"])
    prepare(deployment, name, key, tmp_path)
    place = tmp_path / "events.next"
    start = place.read_text()
    printed = run(name, examples[name], key, tmp_path)
    check_output(name, printed, deployment)
    address, etag = place.read_text().split()
    with deployment.client(str(deployment.issue(f"Other {name}")["key"])) as other:
        wait_for_event(other, "/events?type=key.issued")
    with proxy(deployment) as before:
        place.write_text(f"{address.replace(deployment.url, before.url)}\n{etag}\n")
        run(name, examples[name], key, tmp_path)
    assert before.statuses == [304]
    assert place.read_text().split()[0] != address
    with deployment.client(key) as client:
        order = client.get("/store/orders").json()[0]["id"]
        client.delete(f"/store/orders/{order}").raise_for_status()
        wait_for_event(client, "/events?type=order.cancelled")
        later = ids_of_events(run(name, examples[name], key, tmp_path))
        assert [*ids_of_events(printed), *later] == read_feed(client, start)
    assert later


def ids_of_events(printed: str) -> list[int]:
    """Return the event ids in an example's output."""
    return [int(found) for found in re.findall(r'(?:^|{"id":)(\d+)(?: |,"type")', printed, re.MULTILINE)]


def read_feed(client: httpx.Client, url: str) -> list[int]:
    """Return the ids of all events from this page on."""
    found: list[int] = []
    while events := (response := client.get(url).raise_for_status()).json():
        found += [event["id"] for event in events]
        url = response.links["next"]["url"]
    return found


def respond_without_pets(handler: BaseHTTPRequestHandler, response: httpx.Response) -> None:
    """Respond like the service when no pet is for sale."""
    forward(handler, httpx.Response(response.status_code, json=[]))


def forward_late(handler: BaseHTTPRequestHandler, response: httpx.Response) -> None:
    """Respond like a busy service: later than a client handles a rejection of another request."""
    time.sleep(0.5)
    forward(handler, response)


class Outcome(NamedTuple):
    """An example's output, the times at which its requests arrived and were rejected, and its orders."""

    printed: str
    arrivals: list[float]
    rejected: list[float]
    orders: int


@pytest.fixture(scope="module")
def outcomes(
    deployment: Service, examples: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Outcome]]]:
    """The examples that wait, run concurrently against the faults that each expects."""
    keys = {name: str(deployment.issue(f"Waits {name}")["key"]) for name in WAITING}
    with deployment.client(keys[WAITING[0]]) as client:
        pets = client.get("/pets?status=available&limit=100").json()

    def run_with_faults(name: str) -> Outcome:
        rejected: list[float] = []

        def offer(handler: BaseHTTPRequestHandler, _: httpx.Response) -> None:
            """Show each example another pet, so that they don't compete."""
            forward(handler, httpx.Response(200, json=[pets[-1 - WAITING.index(name)]]))

        def reject_and_record(handler: BaseHTTPRequestHandler, response: httpx.Response) -> None:
            rejected.append(time.monotonic())
            reject(handler, response)

        faults: dict[str, list[Any]] = {
            "backoff.sh": [reject_and_record],
            "backoff": [forward, reject_and_record],
            "retries": [offer, drop_connection],
            "retry": [offer, drop_connection, reject_and_record],
        }
        otherwise = forward_late if name in {"backoff.py", "backoff.mjs"} else forward
        with proxy(deployment, otherwise) as before, deployment.client(keys[name]) as client:
            before.actions = faults[name if name in faults else re.split("[._]", name)[0]]
            code = examples[name].replace(deployment.url, before.url)
            printed = run(name, code, keys[name], tmp_path_factory.mktemp("waits"))
            orders = client.get("/store/orders").json()
        return Outcome(printed, before.arrivals, rejected, len(orders))

    with ThreadPoolExecutor(4) as pool:
        yield {name: pool.submit(run_with_faults, name) for name in WAITING}


def test_example_of_backoff_never_retries_before_retry_after(
    deployment: Service, outcomes: dict[str, Future[Outcome]]
) -> None:
    printed, (first, second), *_ = outcomes["backoff.sh"].result()
    assert second - first >= 2
    check_output("backoff.sh", printed[printed.index("[") :], deployment)  # The Error precedes it.


@pytest.mark.parametrize("name", ["backoff.py", "backoff.mjs"])
def test_example_of_backoff_shares_one_wait_among_concurrent_requests(
    deployment: Service, outcomes: dict[str, Future[Outcome]], name: str
) -> None:
    printed, arrivals, (rejected,), _ = outcomes[name].result()
    check_output(name, printed, deployment)
    assert len(arrivals) == 11
    during = [at for at in arrivals if rejected < at < rejected + 2]
    assert len(during) < 4  # Requests that the other three had in flight.


def run_concurrently(run_one: Callable[[str, Path], None], names: list[str], folder: Path) -> None:
    """Run a check of each example in a folder of its own."""
    for name in names:
        (folder / name).mkdir()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run_one, names, [folder / name for name in names]))


def test_examples_give_up_at_once_on_a_wait_of_hours_and_say_when_to_retry(
    deployment: Service, examples: dict[str, str], key: str, tmp_path: Path
) -> None:
    def run_one(name: str, folder: Path) -> None:
        with proxy(deployment) as before:
            before.actions = [forward, *[partial(reject, seconds=20_000)] * 9]
            if name == "backoff.sh":
                before.actions.pop(0)
            done = attempt(name, examples[name].replace(deployment.url, before.url), key, folder)
        assert done.returncode or name.endswith(".sh")
        said = r"[Rr]etry (in 20000 s|after \d{4}-)|Try again in 20000 s"
        assert re.search(said, done.stdout + done.stderr), done
        assert len(before.arrivals) <= (5 if name in {"backoff.py", "backoff.mjs"} else 2), name

    run_concurrently(run_one, WAITING, tmp_path)


@pytest.mark.parametrize("name", ["account.py", "account.mjs"])
def test_account_example_says_when_an_exhausted_minute_resets(
    deployment: Service, examples: dict[str, str], tmp_path: Path, name: str
) -> None:
    used_up = str(deployment.issue(f"Used up {name}", "enterprise", *ONE_A_MINUTE)["key"])
    with deployment.client(used_up) as client:
        client.get("/categories").raise_for_status()
        wait = re.search(r"Next request in (\d+) s", run(name, examples[name], used_up, tmp_path))
        assert wait
        left = int(client.get("/categories").headers["Retry-After"])
    assert left <= int(wait[1]) <= 61


def test_examples_say_that_there_is_no_pet_to_order(
    deployment: Service, examples: dict[str, str], key: str, tmp_path: Path
) -> None:
    def run_one(name: str, folder: Path) -> None:
        with proxy(deployment) as before:
            before.actions = [respond_without_pets]
            done = attempt(name, examples[name].replace(deployment.url, before.url), key, folder)
        assert done.returncode, name
        assert "There is no pet to order." in done.stdout + done.stderr, name
        assert len(before.arrivals) == 1, name

    names = [f"{example}.{suffix}" for example in ("place_order", "retries") for suffix in RUN]
    run_concurrently(run_one, names, tmp_path)


@pytest.mark.parametrize("name", [name for name in WAITING if name.startswith("retr")])
def test_example_places_one_order_though_the_connection_breaks_and_obeys_retry_after(
    deployment: Service, outcomes: dict[str, Future[Outcome]], name: str
) -> None:
    printed, arrivals, rejected, orders = outcomes[name].result()
    check_output(name, printed, deployment)
    assert (len(arrivals), orders) == (3 + len(rejected), 1)
    assert all(arrivals[3] - at >= 2 for at in rejected)
