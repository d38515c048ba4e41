"""Request lines and other log lines: JSON, redacted, written without blocking."""

import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from time import process_time
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from prometheus_client import REGISTRY

from accounts.keys import key_format
from accounts.models import ApiKey
from petstore.db.monitor import DatabaseUnavailableError
from petstore.observability.log_writer import MAX_QUEUED, LogWriter, QueuedHandler
from petstore.observability.redaction import redact
from tests.conftest import Api

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(capfd: pytest.CaptureFixture[str]) -> Lines:
    """Returns the lines logged since the last call."""
    return lambda: [json.loads(line) for line in capfd.readouterr().err.splitlines()]


def test_request_is_logged_in_one_line(api: Api, key: ApiKey, lines: Lines) -> None:
    api.get("/pets/1?limit=3", X_Request_Id="mine")
    (line,) = lines()
    time, milliseconds = line.pop("time"), line.pop("ms")
    assert line == {
        "level": "info", "event": "request", "request_id": "mine", "account": key.account_id,
        "key": key.public_id, "method": "GET", "route": "/v1/pets/{petId}", "status": 404,
        "client": "127.0.0.1",
    }  # fmt: skip
    assert time.endswith("Z")
    assert datetime.now(UTC) - datetime.fromisoformat(time) < timedelta(minutes=1)
    assert 0 < milliseconds < 60_000


def test_request_that_failed_is_an_error(api: Api, client: Client, lines: Lines, monkeypatch: Any) -> None:
    monkeypatch.setattr("petstore.health.views.is_draining", lambda: True)
    client.get("/readyz")  # Is expected to fail during shutdown.
    (line,) = lines()
    assert (line["level"], line["route"], line["status"]) == ("info", "/readyz", 503)
    monkeypatch.setattr("inventory.views.PetViewSet.list", None)
    api.get("/pets", X_Request_Id="bad")
    trace, request = lines()
    assert (request["level"], request["status"]) == ("error", 500)
    assert (trace["level"], trace["logger"], trace["request_id"]) == ("error", "petstore.api.errors", "bad")
    assert "TypeError" in trace["exception"]


def test_line_without_a_valid_key_has_no_account_but_the_address_behind_the_proxy(
    anonymous_api: Api, lines: Lines, settings: Any
) -> None:
    settings.TRUSTED_PROXY_COUNT = 1
    anonymous_api.get("/pets", X_Forwarded_For="192.0.2.1, 198.51.100.7")
    (line,) = lines()
    assert (line["status"], line["account"], line["key"]) == (401, None, None)
    assert line["client"] == "198.51.100.7"


def test_access_log_is_json_or_text_or_disabled(key: Any, settings: Any, capfd: Any) -> None:
    settings.LOG_FORMAT = "text"
    Api(key.text).get("/pets", X_Request_Id="mine")
    start = r"\S+Z info     GET /v1/pets 200 request_id=mine"
    end = rf"account={key.account_id} key={key.public_id} ms=\S+ client=127.0.0.1\n"
    assert re.fullmatch(f"{start} {end}", capfd.readouterr().err)
    settings.ACCESS_LOG = False
    assert Api(key.text).get("/pets").status_code == 200
    assert capfd.readouterr().err == ""


# --- Secrets -------------------------------------------------------------------------------------

PASSWORD = "geheim-Wort"
REQUESTS_WITH_A_KEY: dict[str, Callable[[Client, str], Any]] = {
    "authorization": lambda client, key: client.get("/v1/pets", headers={"Authorization": f"Bearer {key}"}),
    "another scheme": lambda client, key: client.get("/v1/pets", headers={"Authorization": f"Basic {key}"}),
    "path": lambda client, key: client.get(f"/v1/pets/{key}"),
    "path of no operation": lambda client, key: client.get(f"/v1/{key}"),
    "path of a page": lambda client, key: client.get(f"/{key}"),
    "path of the back office": lambda client, key: client.get(f"/admin/{key}/"),
    "query": lambda client, key: client.get(f"/v1/pets?api_key={key}"),
    "parameter name": lambda client, key: client.get(f"/v1/pets?{key}"),
    "query of a page": lambda client, key: client.get(f"/account/login/?next=/{key}"),
    "request id": lambda client, key: client.get("/v1/pets", headers={"X-Request-Id": key}),
    "within a request id": lambda client, key: client.get("/", headers={"X-Request-Id": f"~{key}~"}),
    "cookie": lambda client, key: client.get("/", headers={"Cookie": f"sessionid={key}"}),
    "user agent": lambda client, key: client.get("/v1/pets", headers={"User-Agent": key}),
    "referer": lambda client, key: client.get("/v1/pets", headers={"Referer": f"https://x/{key}"}),
    "forwarded for": lambda client, key: client.get("/v1/pets", headers={"X-Forwarded-For": key}),
    "host": lambda client, key: client.get("/", headers={"Host": key}),
    "idempotency key": lambda client, key: client.post("/v1/pets", headers={"Idempotency-Key": key}),
    "content type": lambda client, key: client.post("/v1/pets", "{}", content_type=key),
    "body": lambda client, key: client.post("/v1/pets", {"name": key}, content_type="application/json"),
    "form": lambda client, key: client.post("/account/login/", {"login": key, "password": PASSWORD}),
    "method": lambda client, key: client.generic(key, "/v1/pets"),
}


def test_key_is_never_logged(key: Any, settings: Any, capfd: pytest.CaptureFixture[str]) -> None:
    settings.TRUSTED_PROXY_COUNT = 1
    client = Client(raise_request_exception=False)
    for location, send in REQUESTS_WITH_A_KEY.items():
        for settings.LOG_FORMAT in ("json", "text"):
            send(client, key.text)
            output = capfd.readouterr().err
            assert output
            assert get_secret(key.text) not in output, location
            assert PASSWORD not in output


def test_incomplete_key_in_a_request_id_is_redacted(client: Client, settings: Any, capfd: Any) -> None:
    for settings.LOG_FORMAT in ("json", "text"):
        client.get("/healthz", headers={"X-Request-Id": "psk_live_0Zl4dF9kQ2mXa7_geheim"})
        output = capfd.readouterr().err
        assert "psk_live_0Zl4dF9kQ2mXa7_***" in output
        assert "geheim" not in output


def get_secret(key: str) -> str:
    return key.rpartition("_")[2][: key_format.SECRET_LENGTH]


def test_tracebacks_are_redacted(api: Api, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        try:
            raise ValueError(f"Authorization: Bearer {api.key}")
        except ValueError as error:
            raise OperationalError(f"postgresql://petstore:{PASSWORD}@db/petstore: {api.key}") from error

    monkeypatch.setattr("inventory.views.PetViewSet.list", fail)
    assert api.get("/pets").status_code == 503
    text = json.dumps(lines())
    assert "postgresql://petstore:***@db/petstore" in text
    assert PASSWORD not in text
    assert get_secret(api.key or "") not in text


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("postgresql://me:geheim@db:5432/petstore", "postgresql://me:***@db:5432/petstore"),
        ("postgresql://me:ge@he/im@db/petstore", "postgresql://me:***@db/petstore"),
        ("smtp://:geheim@mail.example", "smtp://:***@mail.example"),
        ("host=db user=me password=geheim dbname=x", "host=db user=me password=*** dbname=x"),
        ("password='ge he im' dbname=x", "password=*** dbname=x"),
        ("{'USER': 'me', 'PASSWORD': 'ge, heim'}", "{'USER': 'me', 'PASSWORD': ***}"),
        ('{"password": "ge heim", "name": "x"}', '{"password": ***, "name": "x"}'),
        ("SECRET_KEY=geheim rest", "SECRET_KEY=*** rest"),
        ("API_KEY_PEPPERS=1:geheim,2:geheim rest", "API_KEY_PEPPERS=*** rest"),
        ("/callback?token=geheim&page=2", "/callback?token=***&page=2"),
        ("Authorization: Bearer geheim", "Authorization: Bearer ***"),
        ("authorization: basic Z2VoZWlt=", "authorization: basic ***"),
        ("Cookie: sessionid=geheim; other=geheim\nAccept: x", "Cookie: ***\nAccept: x"),
        ("psk_live_0Zl4dF9kQ2mXa7_geheim!", "psk_live_0Zl4dF9kQ2mXa7_***!"),
        ("psk%5Ftest%5F0Zl4dF9kQ2mXa7%5Fgeheim", "psk%5Ftest%5F0Zl4dF9kQ2mXa7%5F***"),
        ("psk_live_geheim", "psk_live_***"),
        ("DETAIL:  Key (email)=(kim@geheim.example) already exists.", "DETAIL:  Key (email)=(***"),
        (
            "DETAIL:  Failing row contains (1, kim@geheim.example).\nX",
            "DETAIL:  Failing row contains (***\nX",
        ),
        (f"Error: /account/join/{'geheim_-' * 5}/", "Error: /account/join/***/"),
        (f"Error: /account/password/reset/1-2-d2-{'geheim' * 5}/", "Error: /account/password/reset/***/"),
        (f"Error: /account/email/confirm/MQ:1v:{'geheim_-' * 5}/", "Error: /account/email/confirm/***/"),
        ("/account/security/recovery-codes/new/", "/account/security/recovery-codes/new/"),
        ("http://localhost:8000/v1/pets?limit=3", "http://localhost:8000/v1/pets?limit=3"),
        ("3 pets: a, b and c", "3 pets: a, b and c"),
    ],
)
def test_secrets_are_redacted(text: str, redacted: str) -> None:
    assert redact(text) == redacted


def test_redaction_takes_linear_time() -> None:
    start = process_time()  # Also on a busy machine.
    for piece in (
        "psk_live_", "://a:", "password", "password=", "bearer ", "'", "aaa", "/account/", "Key (",
    ):  # fmt: skip
        redact(piece * (60_000 // len(piece)))
    assert process_time() - start < 2


# --- Loggers -------------------------------------------------------------------------------------


def test_libraries_log_the_same_fields(lines: Lines) -> None:
    logging.getLogger("some.library").warning("%d of %s", 3, "five")
    (line,) = lines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("time"))
    assert line == {"level": "warning", "event": "3 of five", "logger": "some.library"}


def test_outage_logged_by_the_monitor_is_not_logged_again(lines: Lines) -> None:
    logger = logging.getLogger("accounts.usage.write_behind")
    closed = OperationalError(f"closed, password={PASSWORD}")
    for error in (DatabaseUnavailableError("The database is unavailable."), closed):
        try:
            raise error
        except OperationalError:
            logger.exception("A step failed.")
    (line,) = lines()
    assert line["exception"].endswith("OperationalError: closed, password=***")


def test_undecodable_byte_is_replaced_and_an_invalid_message_located(capfd: Any) -> None:
    (handler,) = (each for each in logging.getLogger().handlers if isinstance(each, QueuedHandler))
    for message, argument in (("a name: %s", os.fsdecode(b"\xff")), ("%d", PASSWORD)):
        handler.handle(logging.LogRecord("lib", logging.WARNING, "lib.py", 7, message, (argument,), None))
    first, second = capfd.readouterr().err.splitlines()
    assert json.loads(first)["event"] == "a name: ?"
    assert second == "A log message from lib.py:7 could not be formatted."


# --- The log writer ------------------------------------------------------------------------------


Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def writer(pipe: Pipe) -> Iterator[LogWriter]:
    writer = LogWriter(pipe[1])
    writer.start()
    yield writer
    writer.stop()


def dropped() -> float:
    return REGISTRY.get_sample_value("petstore_log_lines_dropped_total") or 0


def read_lines(end: int, number: int) -> list[bytes]:
    with os.fdopen(os.dup(end), "rb") as file:
        return [file.readline() for _ in range(number)]


def test_full_pipe_drops_lines_without_blocking(pipe: Pipe, writer: LogWriter) -> None:
    before = dropped()
    line_count = 2 * MAX_QUEUED
    for number in range(line_count):  # Far more than an unread pipe holds.
        writer.write(b"%0100d\n" % number)
    lost = int(dropped() - before)
    assert 0 < lost < line_count - MAX_QUEUED + 1
    written = [int(line) for line in read_lines(pipe[0], line_count - lost)]
    assert written == sorted(set(written))


def test_line_that_is_written_in_parts_is_complete(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda end, data: write(end, data[:3]))  # As to an almost full disk.
    LogWriter(pipe[1]).write(b"complete\n")
    assert os.read(pipe[0], 100) == b"complete\n"


def test_closed_pipe_drops_lines() -> None:
    before = dropped()
    reading, writing = os.pipe()
    os.close(reading)
    writer = LogWriter(writing)
    writer.write(b"at once\n")
    writer.start()
    writer.write(b"soon\n")
    writer.stop()
    os.close(writing)
    assert dropped() - before == 2


def test_lines_of_two_writers_are_not_interleaved(pipe: Pipe, writer: LogWriter) -> None:
    other, count = LogWriter(pipe[1]), 1_000
    other.start()
    for letter, each in zip(b"ab", (writer, other), strict=True):
        for length in range(count):
            each.write(bytes([letter]) * (length % 400 + 1) + b"\n")
    lines = read_lines(pipe[0], 2 * count)
    other.stop()
    assert sorted(len(line) for line in lines) == sorted(2 * [n % 400 + 2 for n in range(count)])
    assert all(len(set(line.rstrip(b"\n"))) == 1 for line in lines)


def test_stop_flushes_the_last_lines(pipe: Pipe, writer: LogWriter) -> None:
    writer.write(b"last\n")
    writer.stop()
    assert os.read(pipe[0], 100) == b"last\n"
    writer.write(b"after\n")
    assert os.read(pipe[0], 100) == b"after\n"
