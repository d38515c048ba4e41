"""The deployment files match the service and each other. No container engine is needed."""

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

from petstore.observability.healthcheck import is_alive
from tests.support.live import ROOT, STOP_SECONDS
from tests.support.migrated import temporary_database
from tests.support.servers import free_port, wait_until

DEPLOY = ROOT / "deploy"

Instruction = tuple[str, str]


def parse_dockerfile() -> list[list[Instruction]]:
    """Return the instructions of each stage, as name and arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    stages: list[list[Instruction]] = [[]]
    for line in filter(None, map(str.strip, lines)):
        name, _, arguments = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, arguments.strip()))
    return stages[1:]


def find_arguments(name: str) -> list[str]:
    """Return the arguments of an instruction in the last stage, which becomes the image."""
    return [arguments for instruction, arguments in parse_dockerfile()[-1] if instruction == name]


def find_copied_paths() -> list[tuple[str, str]]:
    """Return the paths that the image has from the project, with their targets below /app."""
    copies = find_arguments("COPY")
    lines = [shlex.split(arguments) for arguments in copies if not arguments.startswith("--from=")]
    return [(source, line[-1]) for line in lines for source in line[:-1]]


def test_image_has_hashed_wheels_existing_files_no_root_and_no_secret() -> None:
    *build_stages, image = parse_dockerfile()
    runs = [arguments for stage in build_stages for name, arguments in stage if name == "RUN"]
    (install,) = (arguments for arguments in runs if "requirements" in arguments)
    for part in ("requirements.txt", "requirements-otel.txt", "--require-hashes", "--only-binary :all:"):
        assert part in install
    assert not any("pip" in arguments for _, arguments in image)
    assert (find_arguments("USER"), find_arguments("STOPSIGNAL")) == (["10001:10001"], ["SIGTERM"])
    text = (ROOT / "Dockerfile").read_text()
    assert not re.search(r"SECRET_KEY|PEPPER|PASSWORD|DATABASE_URL", text)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert "!.env" not in ignored
    for source in [
        *(source for source, _ in find_copied_paths()),
        "requirements.txt",
        "requirements-otel.txt",
    ]:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source


# Runs a command without privileges, with a mount namespace in which only one folder is writable.
READ_ONLY = """
mount --bind "$WRITABLE" "$WRITABLE" && mount -o remount,bind,ro / &&
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
"""
ISOLATED = ["unshare", "--mount", "--propagation", "private", "sh", "-c", READ_ONLY, "isolated"]
if os.getuid() != 0:
    ISOLATED.insert(1, "--map-root-user")


@contextmanager
def unpacked_image(folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the files of the image and its environment. Skips the test without mount namespaces."""
    app, writable = folder / "app", folder / "tmp"
    app.mkdir()
    writable.mkdir()
    for source, target in find_copied_paths():
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, app / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, app / target)
    environment = dict(
        part.split("=", 1) for arguments in find_arguments("ENV") for part in shlex.split(arguments)
    )
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # For /opt/venv.
    environment["COUNTERS_DIR"] = environment["COUNTERS_DIR"].replace("/tmp", str(writable))
    environment |= {"WRITABLE": str(writable), "TMPDIR": str(writable)}
    attempt = subprocess.run(
        [*ISOLATED, "touch", str(app / "x")], env=environment, capture_output=True, text=True, check=False
    )
    if "Read-only file system" not in attempt.stderr:
        pytest.skip(f"This machine offers no read-only view of its files: {attempt.stderr}")
    yield app, environment


def test_image_works_with_only_tmp_writable(
    tmp_path: Path,
) -> None:
    port = free_port()
    # JSON is the exec form. A shell would not forward signals.
    start = [*ISOLATED, *json.loads(find_arguments("ENTRYPOINT")[0])]
    check = [*ISOLATED, *json.loads(find_arguments("HEALTHCHECK")[0].partition("CMD ")[2])]
    with unpacked_image(tmp_path) as (app, image), temporary_database(Path(image["TMPDIR"])) as url:
        secrets = {name: os.environ[name] for name in ("SECRET_KEY", "API_KEY_PEPPERS")}
        environment = (
            image | secrets | {"DATABASE_URL": url, "PORT": str(port), "ALLOWED_HOSTS": "a.example"}
        )
        options: dict[str, Any] = {"cwd": app, "env": environment}
        subprocess.run([*start, "migrate", "--verbosity", "0"], **options, check=True)
        serve = [*start, *json.loads(find_arguments("CMD")[0])]
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


class StrictLoader(yaml.SafeLoader):
    """Rejects repeated keys, as Compose does."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert sorted(set(keys)) == sorted(keys), str(node.start_mark)
        return super().construct_mapping(node, deep)


def load_compose_file() -> dict[str, Any]:
    return dict(yaml.load((DEPLOY / "compose.yaml").read_text(), StrictLoader))


def test_containers_are_read_only_unprivileged_limited_and_behind_the_proxy() -> None:
    assert load_compose_file()["networks"]["back"] == {"internal": True}
    for name, service in load_compose_file()["services"].items():
        public = [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")]
        assert bool(public) is (name == "proxy"), name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}, name


def test_instances_start_after_the_migrations_and_stop_within_their_grace_period() -> None:
    services = load_compose_file()["services"]
    settings = load_env_example()
    for name in ("a", "b"):
        dependencies = services[name]["depends_on"]
        assert dependencies["migrate"] == {"condition": "service_completed_successfully"}
        grace = int(services[name]["stop_grace_period"].removesuffix("s"))
        assert grace > int(settings["DRAIN_SECONDS"]) + 10
        assert services["proxy"]["environment"][f"PETSTORE_{name.upper()}"] == f"{name}:8000"
    assert services["migrate"]["command"] == ["migrate"]


def test_postgresql_allows_the_connections_of_all_workers() -> None:
    services = load_compose_file()["services"]
    workers = sum(int(services[name]["command"][-1]) for name in "ab")
    # As in docs/databases.md.
    counting = 2
    per_worker = 1 + 1 + counting + settings.WRITE_CONNECTIONS + settings.THREADS + 1 + 1 + 1 + 3
    assert f"| total | | {per_worker} |" in (ROOT / "docs/databases.md").read_text()
    allowed = int(services["postgresql"]["command"][-1].removeprefix("max_connections="))
    assert allowed >= 1.5 * workers * per_worker  # One of the two machines is replaced at a time.


def load_env_example() -> dict[str, str]:
    lines = (DEPLOY / "petstore.env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_env_example_has_no_secret_and_no_unknown_name() -> None:
    example = load_env_example()
    known = set(re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE))
    assert set(example) <= known | {"PETSTORE_VERSION", "POSTGRES_PASSWORD"}
    assert {example[name] for name in ("SECRET_KEY", "API_KEY_PEPPERS", "POSTGRES_PASSWORD")} == {""}
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"deploy/petstore.env", "deploy/certificate.pem"} <= set(ignored)


@pytest.mark.parametrize(
    "name", ["petstore@.service", "petstore-housekeeping.service", "petstore-webhooks.service"]
)
def test_systemd_units_are_valid_and_hardened(tmp_path: Path, name: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("No systemd-analyze is installed.")
    unit = tmp_path / name
    shutil.copy(DEPLOY / name, unit)
    units = [unit]
    if name == "petstore-housekeeping.service":
        units.append(Path(shutil.copy(DEPLOY / "petstore-housekeeping.timer", tmp_path)))
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=15", str(unit)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_units_drain_and_log_without_a_limit() -> None:
    text = (DEPLOY / "petstore@.service").read_text()
    for logging in (text, (DEPLOY / "haproxy.service.conf").read_text()):
        assert "\nLogRateLimitBurst=1000000\n" in logging  # Otherwise journald would drop lines.
    assert "KillMode=mixed" in text  # Otherwise the workers would exit before the supervisor drains.
