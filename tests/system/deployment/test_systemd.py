"""The systemd units on a Debian machine, installed as docs/deploying.md says."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.servers import wait_until
from tests.system.deployment.conftest import require
from tests.system.deployment.engine import missing_programs
from tests.system.deployment.machine import PROGRAMS, Machine, booted_machine

INSTALL = Path(__file__).parent / "systemd/install.sh"
INSTANCES = (8001, 8002)
WORKERS = 3  # SERVE_OPTIONS.
STOP_SECONDS = 30  # TimeoutStopSec.
LINES = 5_000  # More than the machine's journald accepts in 30 s.
# One connection is enough: thousands of lines in a few seconds.
SEND = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", 8001)
headers = {"Host": "api.example.com", "X-Forwarded-For": "192.0.2.1", "X-Request-Id": "many-lines"}
for _ in range(int(sys.argv[1])):
    connection.request("GET", "/v1/pets", headers=headers)
    connection.getresponse().read()
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A machine on which both instances and the proxy run."""
    require(missing_programs(PROGRAMS))
    with booted_machine() as machine:
        (machine.root / "root/install.sh").write_text(INSTALL.read_text())
        machine.run("sh", "/root/install.sh")
        wait_until(lambda: status(machine, "/readyz") == "200")
        yield machine


@pytest.fixture(autouse=True)
def healthy(machine: Machine) -> None:
    """Both instances are ready before each test."""
    machine.run("systemctl", "start", *(f"petstore@{port}" for port in INSTANCES))
    for port in INSTANCES:
        wait_until(partial(is_ready, machine, port))


def is_ready(machine: Machine, port: int) -> bool:
    command = machine.command("curl", "--silent", "--fail", f"http://127.0.0.1:{port}/readyz")
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def status(machine: Machine, path: str) -> str:
    """The status of a GET through the proxy."""
    resolve = ["--resolve", "api.example.com:443:127.0.0.1", "--cacert", "/root/certificate.pem"]
    shown = ["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]
    command = machine.command("curl", *shown, *resolve, f"https://api.example.com{path}")
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def main_pid(machine: Machine, port: int) -> str:
    return machine.show(f"petstore@{port}", "MainPID")


def worker_pids(machine: Machine, port: int) -> set[str]:
    return set(machine.run("sh", "-c", f"cat /proc/{main_pid(machine, port)}/task/*/children").split())


def journal(machine: Machine, *options: str) -> list[str]:
    """The messages of the journal, which is written within a second."""
    machine.run("journalctl", "--sync")
    return machine.run("journalctl", "--no-pager", "--output=cat", *options).splitlines()


def test_service_is_served_and_measured_through_the_proxy(machine: Machine) -> None:
    assert status(machine, "/") == "200"
    assert status(machine, "/v1/pets") == "401"
    assert status(machine, "/metrics") == "404"
    curl = ("curl", "--silent", "--fail")
    metrics = machine.run(*curl, "http://127.0.0.1:8405/metrics")
    assert 'haproxy_backend_active_servers{proxy="instances"} 2' in metrics
    assert machine.run("stat", "--format=%F %a %U", "/run/haproxy/admin.sock") == "socket 600 root\n"
    for port in INSTANCES:
        assert len(worker_pids(machine, port)) == WORKERS
        assert f"petstore_workers {WORKERS}.0" in machine.run(*curl, f"http://127.0.0.1:1{port}/metrics")
    machine.run("systemctl", "is-system-running")  # No unit has failed.
    assert machine.run("cat", "/proc/sys/net/ipv4/tcp_migrate_req") == "1\n"


def test_proxy_that_starts_after_the_instances_reports_no_empty_backend(machine: Machine) -> None:
    machine.run("systemctl", "restart", "haproxy")
    since = machine.show("haproxy", "ActiveEnterTimestamp")
    time.sleep(4)  # Two failed checks take 2 s.
    assert not [line for line in journal(machine, "-u", "haproxy", "--since", since) if "no server" in line]


def test_housekeeping_is_scheduled_and_works(machine: Machine) -> None:
    assert "petstore-housekeeping.timer" in machine.run("systemctl", "list-timers", "--no-pager")
    machine.run("systemctl", "start", "petstore-housekeeping")
    assert machine.show("petstore-housekeeping", "Result") == "success"


def test_killed_instance_is_restarted(machine: Machine) -> None:
    before = main_pid(machine, 8001)
    machine.run("systemctl", "kill", "--signal=KILL", "petstore@8001")
    wait_until(lambda: main_pid(machine, 8001) not in {before, "0"})
    wait_until(lambda: is_ready(machine, 8001))
    assert status(machine, "/readyz") == "200"


def test_killed_worker_is_replaced_by_the_instance(machine: Machine) -> None:
    supervisor, workers = main_pid(machine, 8001), worker_pids(machine, 8001)
    machine.run("sh", "-c", f"kill -KILL {min(workers)}")
    wait_until(lambda: len(worker_pids(machine, 8001) - workers) == 1 and is_ready(machine, 8001))
    assert main_pid(machine, 8001) == supervisor


def test_reload_replaces_the_workers(machine: Machine) -> None:
    supervisor, workers = main_pid(machine, 8001), worker_pids(machine, 8001)
    machine.run("systemctl", "reload", "petstore@8001")
    wait_until(
        lambda: len(worker_pids(machine, 8001)) == WORKERS and not workers & worker_pids(machine, 8001)
    )
    assert is_ready(machine, 8001)
    assert main_pid(machine, 8001) == supervisor


def test_stopping_drains_and_no_request_through_the_proxy_fails(machine: Machine) -> None:
    started, statuses = time.monotonic(), Counter[str]()
    with subprocess.Popen(machine.command("systemctl", "stop", "petstore@8001")) as stop:
        wait_until(lambda: not is_ready(machine, 8001))
        assert stop.poll() is None, "It did not drain."
        while stop.poll() is None:
            statuses[status(machine, "/healthz")] += 1
    assert time.monotonic() - started < STOP_SECONDS
    assert set(statuses) == {"200"}
    assert machine.show("petstore@8001", "Result") == "success"
    assert machine.show("petstore@8001", "ExecMainStatus") == "0"


def test_instance_has_no_rights_beyond_its_folder(machine: Machine) -> None:
    supervisor = main_pid(machine, 8001)
    lines = machine.run("cat", f"/proc/{supervisor}/status").splitlines()
    state = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert (state["NoNewPrivs"], state["Seccomp"]) == ("1", "2")
    assert {state[name].strip("0") for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {""}
    inside = ["nsenter", "--target", supervisor, "--mount", "--", "touch"]
    for folder in ("/opt/petstore", "/etc", "/usr/local", "/var/lib"):
        denied = subprocess.run(
            machine.command(*inside, f"{folder}/x"), capture_output=True, text=True, check=False
        )
        assert "Read-only file system" in denied.stderr, folder
    for folder in ("/run/petstore", "/tmp"):
        machine.run(*inside, f"{folder}/x")
    assert not (machine.root / "tmp/x").exists()


def count_lines(machine: Machine, request_id: str) -> int:
    return sum(f'"{request_id}"' in line for line in journal(machine, "-t", "petstore@8001"))


def test_many_log_lines_are_all_in_the_journal(machine: Machine) -> None:
    machine.run("systemd-run", "--quiet", "--wait", "--unit=limited", "seq", str(LINES))
    assert len(journal(machine, "-u", "limited")) < LINES, "journald limits nothing."
    machine.run("python3", "-c", SEND, str(LINES))
    # The service writes its lines every 0.2 s.
    wait_until(lambda: count_lines(machine, "many-lines") == LINES, seconds=15)
