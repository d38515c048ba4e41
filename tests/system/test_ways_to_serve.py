"""Every serve mode returns the recorded responses, byte for byte."""

from pathlib import Path

import pytest
from django.db import connection

from tests.system.conversation import answers, recorded

pytestmark = pytest.mark.each_database
RENEW = (
    "If that is meant, renew the record and read its diff:\n.venv/bin/python -m tests.system.conversation"
)
WAYS: dict[str, dict[str, str]] = {
    "the event loop": {},
    "threads": {"SERVE_MODE": "threads"},
    "no prepared statements": {"DATABASE_PREPARED_STATEMENTS": "false"},
}
if connection.vendor == "sqlite":
    WAYS = {"threads": {}}  # The only serve mode.


def test_record_has_every_kind_of_response() -> None:
    statuses = {answer.status for answer in recorded()}
    assert statuses >= {200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 413, 414, 415, 422, 429, 431}


@pytest.mark.parametrize("way", WAYS)
def test_every_response_matches_the_record(tmp_path: Path, way: str) -> None:
    for answer, on_record in zip(answers(tmp_path, **WAYS[way]), recorded(), strict=True):
        assert answer == on_record, RENEW
