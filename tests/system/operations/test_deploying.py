"""The deployment files agree with the service and with each other. No container engine is needed."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from django.conf import settings
from django.test import Client

from petstore.observability.healthcheck import is_alive
from tests.support.live import ROOT, STOP_SECONDS, own_database
from tests.support.servers import free_port, wait_until

DEPLOY = ROOT / "deploy"

Instruction = tuple[str, str]


def dockerfile() -> list[list[Instruction]]:
    """The instructions of each stage, each a name and its text."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    stages: list[list[Instruction]] = [[]]
    for line in filter(None, map(str.strip, lines)):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, rest.strip()))
    return stages[1:]


def values(name: str) -> list[str]:
    """The arguments of an instruction in the last stage, which becomes the image."""
    return [rest for instruction, rest in dockerfile()[-1] if instruction == name]


def copied() -> list[tuple[str, str]]:
    """What is copied from the project into the image, and its target below /app."""
    lines = [shlex.split(rest) for rest in values("COPY") if not rest.startswith("--from=")]
    return [(source, line[-1]) for line in lines for source in line[:-1]]


def test_image_has_hashed_wheels_no_secret_and_no_root_and_all_that_is_copied_exists() -> None:
    *before, image = dockerfile()
    runs = [rest for stage in before for name, rest in stage if name == "RUN"]
    installs = [json.loads(rest) for rest in runs if "-r" in rest]
    assert [line[-1] for line in installs] == ["/tmp/requirements.txt", "/tmp/requirements-otel.txt"]
    assert all({"--require-hashes", "--only-binary"} <= set(line) for line in installs)
    assert not any("pip" in rest for _, rest in image)
    assert (values("USER"), values("STOPSIGNAL")) == (["10001:10001"], ["SIGTERM"])
    text = (ROOT / "Dockerfile").read_text()
    assert not re.search(r"SECRET_KEY|PEPPER|PASSWORD|DATABASE_URL", text)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert "!.env" not in ignored
    for source in [*(source for source, _ in copied()), "requirements.txt", "requirements-otel.txt"]:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source


# Runs a command without privileges, with a mount namespace in which only one folder is writable.
READ_ONLY = """
mount --bind "$WRITABLE" "$WRITABLE" && mount -o remount,bind,ro / &&
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
"""
CONTAINED = ["unshare", "--mount", "--propagation", "private", "sh", "-c", READ_ONLY, "contained"]
if os.getuid() != 0:
    CONTAINED.insert(1, "--map-root-user")


@contextmanager
def unpacked_image(folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the image's files and its environment; skip where there are no mount namespaces."""
    app, writable = folder / "app", folder / "tmp"
    app.mkdir()
    writable.mkdir()
    for source, target in copied():
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, app / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, app / target)
    said = dict(part.split("=", 1) for rest in values("ENV") for part in shlex.split(rest))
    said["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # For /opt/venv.
    said["COUNTERS_DIR"] = said["COUNTERS_DIR"].replace("/tmp", str(writable))
    said |= {"WRITABLE": str(writable), "TMPDIR": str(writable)}
    tried = subprocess.run(
        [*CONTAINED, "touch", str(app / "x")], env=said, capture_output=True, text=True, check=False
    )
    if "Read-only file system" not in tried.stderr:
        pytest.skip(f"No read-only view of this machine can be made: {tried.stderr}")
    yield app, said


def test_command_and_health_check_of_the_image_work_with_only_tmp_writable(
    tmp_path: Path,
) -> None:
    port = free_port()
    # All in exec form: a shell would not forward signals.
    start = [*CONTAINED, *json.loads(values("ENTRYPOINT")[0])]
    check = [*CONTAINED, *json.loads(values("HEALTHCHECK")[0].partition("CMD ")[2])]
    with unpacked_image(tmp_path) as (app, said), own_database(Path(said["TMPDIR"])) as url:
        secrets = {name: os.environ[name] for name in ("SECRET_KEY", "API_KEY_PEPPERS")}
        environment = (
            said | secrets | {"DATABASE_URL": url, "PORT": str(port), "ALLOWED_HOSTS": "a.example"}
        )
        options: dict[str, Any] = {"cwd": app, "env": environment}
        subprocess.run([*start, "migrate", "--verbosity", "0"], **options, check=True)
        serve = [*start, *json.loads(values("CMD")[0])]
        with (
            (tmp_path / "log").open("wb") as log,
            subprocess.Popen(serve, **options, stderr=log) as service,
        ):
            try:
                wait_until(lambda: is_alive(port))
                assert subprocess.run(check, **options, check=False).returncode == 0
                anonymous = httpx.get(f"http://127.0.0.1:{port}/v1/pets")  # Counted in COUNTERS_DIR.
                assert (anonymous.status_code, anonymous.headers["x-ratelimit-remaining"]) == (401, "299")
            finally:
                service.terminate()
                status = service.wait(STOP_SECONDS)
        assert status == 0, (tmp_path / "log").read_text()
        assert subprocess.run(check, **options, check=False).returncode == 1


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text()))


def test_every_container_is_read_only_without_privileges_and_with_limits_behind_the_proxy() -> None:
    assert compose()["networks"]["back"] == {"internal": True}
    for name, service in compose()["services"].items():
        assert ("ports" in service) is (name == "proxy")
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}, name


def test_instances_start_after_the_migrations_and_stop_within_their_grace_period() -> None:
    services = compose()["services"]
    settings = env_example()
    for name in ("a", "b"):
        waits = services[name]["depends_on"]
        assert waits["migrate"] == {"condition": "service_completed_successfully"}
        grace = int(services[name]["stop_grace_period"].removesuffix("s"))
        assert grace > int(settings["DRAIN_SECONDS"]) + 10
        assert services["proxy"]["environment"][f"PETSTORE_{name.upper()}"] == f"{name}:8000"
    assert services["migrate"]["command"] == ["migrate"]


def test_postgresql_allows_the_connections_of_all_workers() -> None:
    services = compose()["services"]
    workers = sum(int(services[name]["command"][-1]) for name in "ab")
    # As in docs/databases.md.
    each = 1 + 1 + settings.WRITE_CONNECTIONS + 2 * settings.THREADS + 1 + 3
    assert f"| total | | {each} |" in (ROOT / "docs/databases.md").read_text()
    allowed = int(services["postgresql"]["command"][-1].removeprefix("max_connections="))
    assert allowed >= 1.5 * workers * each  # One of the two machines is replaced at a time.


def env_example() -> dict[str, str]:
    lines = (DEPLOY / "petstore.env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_example_of_the_settings_has_no_secret_and_no_unknown_name() -> None:
    example = env_example()
    known = set(re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE))
    assert set(example) <= known | {"PETSTORE_VERSION", "POSTGRES_PASSWORD"}
    assert {example[name] for name in ("SECRET_KEY", "API_KEY_PEPPERS", "POSTGRES_PASSWORD")} == {""}
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"deploy/petstore.env", "deploy/certificate.pem"} <= set(ignored)


def test_unit_for_systemd_is_valid_and_hardened(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("No systemd-analyze is installed.")
    text = (DEPLOY / "petstore@.service").read_text()
    unit = tmp_path / "petstore@.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    safe = ["systemd-analyze", "security", "--offline=true", "--threshold=15", str(unit)]
    assert subprocess.run(safe, capture_output=True, check=False).returncode == 0
    assert "KillMode=mixed" in text  # Otherwise the workers would exit before the supervisor drains.


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
@pytest.mark.django_db
def test_load_balancers_and_prometheus_may_use_addresses_as_host(client: Client, path: str) -> None:
    assert client.get(path, headers={"host": "192.0.2.7:8000"}).status_code == 200
    assert client.get("/", headers={"host": "192.0.2.7:8000"}).status_code == 400
