"""deploy/compose.yaml on a real engine, used as docs/deploying.md says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import ROOT
from tests.support.servers import wait_until
from tests.system.deployment.engine import VERSION, Engine
from tests.system.operations.upgrade import check_out, make_next

pytestmark = pytest.mark.usefixtures("image")
NEXT = f"{VERSION}-next"
HEALTHY = ("a", "b", "proxy", "postgresql")


@pytest.fixture
def deployment(engine: Engine, folder: Path) -> Iterator[Path]:
    """Two instances, PostgreSQL and the proxy, started with the documented command."""
    try:
        engine.compose(folder, "up", "-d", "--no-build")  # The engine has built the image already.
        wait_until(lambda: curl(engine, "https://api.example.com/readyz", folder) == "200")
        yield folder
    finally:
        engine.compose(folder, "--profile", "monitoring", "down", "--volumes")


def curl(engine: Engine, url: str, folder: Path) -> str:
    """The status of a GET through the proxy."""
    resolve = ["--resolve", "api.example.com:443:127.0.0.1", "--resolve", "api.example.com:80:127.0.0.1"]
    options = ["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", *resolve]
    certificate = str(folder.parent / "certificate.pem")
    command = engine.inside("curl", *options, "--cacert", certificate, url)
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def issue_key(engine: Engine, folder: Path) -> str:
    manage = ["exec", "-T", "a", "python", "manage.py"]
    plan = ["--plan", "enterprise", "--per-minute", "1000000", "--per-day", "10000000"]
    issued = engine.compose(folder, *manage, "issue_key", "--account", "Acme Pets", *plan, "--json")
    return str(json.loads(issued)["key"])


def test_documented_start_serves_through_the_proxy(engine: Engine, deployment: Path) -> None:
    assert curl(engine, "https://api.example.com/", deployment) == "200"
    assert curl(engine, "http://api.example.com/v1/pets", deployment) in ("301", "308")
    assert curl(engine, "https://api.example.com/v1/pets", deployment) == "401"
    assert curl(engine, "https://api.example.com/metrics", deployment) == "404"
    expected = dict.fromkeys(HEALTHY, "healthy") | {"housekeeping": ""}
    wait_until(lambda: health(engine, deployment) == expected)
    assert "Done. Deleted 0 " in engine.compose(deployment, "logs", "housekeeping")
    doctor = engine.compose(deployment, "exec", "-T", "a", "python", "manage.py", "doctor")
    assert doctor.endswith("Problems found: 0.\n"), doctor
    checked = ["exec", "-T", "a", "python", "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    assert "no issues" in engine.compose(deployment, *checked)


def health(engine: Engine, folder: Path) -> dict[str, str]:
    """The health of each service that runs."""
    lines = engine.compose(folder, "ps", "--format", "json").splitlines()
    return {state["Service"]: state["Health"] for state in map(json.loads, lines)}


@contextmanager
def traffic(engine: Engine, deployment: Path, key: str) -> Iterator[subprocess.Popen[str]]:
    module = "tests.system.deployment.traffic"
    command = engine.inside(sys.executable, "-m", module, key, str(deployment.parent / "certificate.pem"))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe) as process:
        yield process


def test_upgrade_under_load_loses_no_request(engine: Engine, deployment: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    check_out(old)
    make_next(old, new)
    engine.docker("build", "--tag", f"petstore:{NEXT}", str(new))
    key = issue_key(engine, deployment)
    settings = deployment / "petstore.env"
    with traffic(engine, deployment, key) as process:
        settings.write_text(
            settings.read_text().replace(f"PETSTORE_VERSION={VERSION}", f"PETSTORE_VERSION={NEXT}")
        )
        engine.compose(deployment, "run", "--rm", "migrate")
        for name in "ab":
            engine.compose(deployment, "up", "-d", "--no-deps", "--no-build", "--wait", name)
        output, _ = process.communicate()
    result = json.loads(output)
    assert result["sent"] > 100
    assert result["unexpected"] == []
    query = "SELECT id FROM inventory_pet WHERE nickname IS NULL"
    psql = ["exec", "-T", "postgresql", "psql", "-U", "petstore", "-At", "-c", query]
    stored = {int(line) for line in engine.compose(deployment, *psql).split()}
    assert set(result["added"]) <= stored


def test_prometheus_scrapes_both_instances_and_the_proxy(engine: Engine, deployment: Path) -> None:
    engine.compose(deployment, "--profile", "monitoring", "up", "-d", "--no-build", "prometheus")

    def query(path: str) -> dict[str, Any]:
        command = engine.inside("curl", "--silent", "--fail", f"http://127.0.0.1:9090/api/v1/{path}")
        return dict(json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["data"])

    def all_targets_are_up() -> bool:
        targets = query("targets")["activeTargets"]
        return len(targets) == 3 and all(target["health"] == "up" for target in targets)

    wait_until(all_targets_are_up)
    rules = [rule for group in query("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 10
    assert [rule["name"] for rule in rules if rule["health"] == "err"] == []


def test_stopping_leaves_no_instance_killed(engine: Engine, deployment: Path) -> None:
    engine.compose(deployment, "stop", "a")
    identifier = engine.compose(deployment, "ps", "--all", "--quiet", "a").strip()
    assert engine.docker("inspect", "--format", "{{.State.ExitCode}}", identifier).strip() == "0"
