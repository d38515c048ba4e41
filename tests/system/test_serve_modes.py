"""Every serve mode returns the recorded responses, byte for byte."""

from pathlib import Path

import pytest
from django.db import connection

from tests.system.conversation import get_responses, read_record

pytestmark = pytest.mark.each_database
REGENERATE = (
    "If the change is intended, regenerate the record and read its diff:\n"
    ".venv/bin/python -m tests.system.conversation"
)
MODES: dict[str, dict[str, str]] = {
    "the event loop": {},
    "threads": {"SERVE_MODE": "threads"},
    "no prepared statements": {"DATABASE_PREPARED_STATEMENTS": "false"},
}
if connection.vendor == "sqlite":
    MODES = {"threads": {}}  # The only serve mode.


def test_record_has_every_kind_of_response() -> None:
    statuses = {response.status for response in read_record()}
    assert statuses >= {200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 413, 414, 415, 422, 429, 431}


@pytest.mark.parametrize("mode", MODES)
def test_every_response_matches_the_record(tmp_path: Path, mode: str) -> None:
    for response, recorded in zip(get_responses(tmp_path, **MODES[mode]), read_record(), strict=True):
        assert response == recorded, REGENERATE
