"""Runs management commands in this process."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command


def run(*command: str, status: int = 0, stderr: StringIO | None = None) -> str:
    """Run a command that exits with this status, and return its output."""
    out, exit_status = StringIO(), 0
    try:
        call_command(*command, stdout=out, stderr=stderr or StringIO())
    except SystemExit as ended:
        exit_status = int(ended.code or 0)
    assert exit_status == status
    return out.getvalue()


def run_json(*command: str, status: int = 0) -> Any:
    return json.loads(run(*command, "--json", status=status))


def get_error(*command: str) -> str:
    """Run a command that fails, and return its message."""
    with pytest.raises(CommandError) as raised:
        run(*command)
    return str(raised.value)
