"""A process with valid variables starts, and one with an invalid variable does not (D35)."""

import os
import subprocess
import sys
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.live import ROOT
from tests.support.servers import free_port
from tests.support.skips import NEEDS_POSTGRESQL
from tests.unit.test_settings import ENVIRONMENT


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with only these variables and the required ones."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT, env=ENVIRONMENT | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["serve", "help"])
def test_invalid_value_stops_every_command(command: str) -> None:
    result = run("manage.py", command, PORT="http")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "petstore: PORT must be a whole number from 1 to 65535, not 'http'.\n"


def test_only_two_secrets_are_required_and_none_for_debugging() -> None:
    for variables in ({}, {"DEBUG": "1", "SECRET_KEY": "", "API_KEY_PEPPERS": ""}):
        result = run("manage.py", "check", **variables)
        assert result.returncode == 0, result.stderr


def imported_modules(code: str) -> list[str]:
    """Run code in a process without OpenTelemetry, and return the names of all imported modules."""
    missing = "import sys; sys.modules['opentelemetry'] = None; "
    result = run("-c", f"{missing}{code}; print(*sys.modules)")
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_settings_import_neither_models_nor_pages_nor_logs() -> None:
    """Every command reads the settings, and `serve` needs nothing else until it becomes the server."""
    at_start = imported_modules("import petstore.settings, petstore.management.commands.serve")
    assert not {"django.db.models", "django.http", "prometheus_client"} & set(at_start)


LOAD = """
import os
from pathlib import Path
from petstore.server.supervisor import load_application

def read(folder):
    return {os.readlink(file) if file.is_symlink() else file.name for file in Path(folder).iterdir()}

files = read("/proc/self/fd")
load_application()
assert read("/proc/self/task") == {str(os.getpid())}
assert {name for name in read("/proc/self/fd") - files if not name.startswith("/proc/")} == set()
"""


def test_loading_the_application_starts_no_thread_and_opens_no_file_or_connection() -> None:
    """The workers are forked afterwards."""
    result = run("-c", LOAD)
    assert (result.returncode, result.stderr) == (0, "")


def test_service_that_cannot_load_exits_with_one_traceback() -> None:
    broken = {"DJANGO_SETTINGS_MODULE": "tests.system.broken_settings", "PORT": str(free_port())}
    result = run("manage.py", "serve", **broken)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("Traceback") == 1
    assert result.stderr.endswith("ModuleNotFoundError: No module named 'tests.missing'\n")


def test_application_has_the_pages_and_the_openapi_document_before_it_serves() -> None:
    document = "from petstore.api.openapi.views import get_document"
    is_built = "assert get_document.cache_info().currsize == 1"
    loaded = imported_modules(f"import petstore.server.app; {document}; {is_built}")
    assert {"inventory.views", "petstore.urls", "accounts.admin", "inventory.admin"} <= set(loaded)
    assert not any(name.startswith("opentelemetry.") for name in loaded)  # It needs a collector.


@NEEDS_POSTGRESQL
def test_second_host_is_used_when_the_first_does_not_respond() -> None:
    server = conninfo_to_dict(os.environ["DATABASE_URL"])
    hosts = {"host": f"127.0.0.1,{server.get('host', '')}", "port": f"1,{server.get('port', '')}"}
    url = f"postgresql://?{urlencode(server | hosts)}"
    result = run("manage.py", "showmigrations", DATABASE_URL=url)
    assert result.returncode == 0, result.stderr
    assert "0001_squashed_0025_rename_fields" in result.stdout
