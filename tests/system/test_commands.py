"""Commands as processes: exit statuses, streams, and signals."""

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest

from petstore.observability.healthcheck import is_alive
from tests.support.live import ROOT, STOP_SECONDS, Service, run_manage
from tests.support.packages import python
from tests.support.preloaded import CommandRunner
from tests.support.servers import START_SECONDS, free_port, wait_until

HEAD = b"name,category,status\n"


def run_on_terminal(*arguments: str, **environment: str) -> str:
    """Run manage.py on a terminal, and return its output."""
    controller, terminal = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "DJANGO_COLORS"}}
    process = subprocess.Popen(
        [python(), "manage.py", *arguments],
        cwd=ROOT, env=plain | environment, stdin=terminal, stdout=terminal, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    parts = []
    try:
        while part := os.read(controller, 4096):
            parts.append(part)
    except OSError:  # The other end of the terminal was closed.
        pass
    os.close(controller)
    process.wait()
    return b"".join(parts).decode()


INVALID_SERVE = ("serve", "--port", "99999")  # Imports least.


@pytest.mark.parametrize(
    ("options", "variables", "has_colours"),
    [
        ([], {"NO_COLOR": ""}, True),
        ([], {"NO_COLOR": "1"}, False),
        (["--force-color"], {"NO_COLOR": "1"}, True),
    ],
)
def test_terminal_has_colours_unless_disabled(
    options: list[str], variables: dict[str, str], *, has_colours: bool
) -> None:
    output = run_on_terminal(*INVALID_SERVE, *options, **variables)
    assert ("\x1b[" in output) is has_colours
    assert "Can't listen on 127.0.0.1 port 99999" in output


def test_pipe_has_no_colours() -> None:
    assert "\x1b[" not in run_manage(dict(os.environ), *INVALID_SERVE).stderr


@pytest.mark.parametrize(
    ("signal_number", "when"),
    [(signal.SIGINT, "in service"), (signal.SIGTERM, "at once")],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_service_exits_promptly_when_all_its_processes_get_the_signal(
    service: Service, signal_number: int, when: str
) -> None:
    port = str(free_port())
    serving = subprocess.Popen(
        [python(), "manage.py", "serve", "--port", port], cwd=ROOT, env=service.environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert serving.stdout is not None
        if when == "in service":
            served = f"Serving on http://127.0.0.1:{port}/ "  # Possibly after the log of the first request.
            assert any(line.startswith(served) for line in serving.stdout)
        else:
            wait_until(lambda: Path(f"/proc/{serving.pid}/cmdline").read_bytes().index(b"petstore.server"))
        os.killpg(serving.pid, signal_number)
        output, _ = serving.communicate(timeout=START_SECONDS)
        # 1 if a worker got the signal, too, and exited before the supervisor.
        assert serving.returncode in ({0} if when == "at once" else {0, 1})
        assert "Killing" not in output  # Logged for a worker that does not exit.
    finally:
        with suppress(ProcessLookupError):
            os.killpg(serving.pid, signal.SIGKILL)
        serving.communicate()


@pytest.mark.parametrize(("host", "printed_host"), [("localhost", "127.0.0.1"), ("::1", "[::1]")])
def test_service_prints_its_address_once_it_responds_there(
    service: Service, host: str, printed_host: str
) -> None:
    port = str(free_port())
    with subprocess.Popen(
        [python(), "manage.py", "serve", "--host", host, "--port", port, "--workers", "1"],
        cwd=ROOT, env=service.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as serving:  # fmt: skip
        assert serving.stdout is not None
        try:
            lines = iter(serving.stdout.readline, "")
            banner = next(line for line in lines if not line.startswith("{"))
            assert banner.startswith(f"Serving on http://{printed_host}:{port}/ with 1 workers.")
            assert httpx.get(f"{banner.split()[2]}healthz").status_code == 200
        finally:
            serving.terminate()


def test_exit_status_and_streams_follow_conventions(service: Service) -> None:
    key_id = service.issue("Process Pets")["id"]
    revoke = ("revoke_key", key_id, "--reason", "Lost")
    done = f"Done. Key {key_id} of Process Pets is revoked.\n"
    assert service.commands.run(*revoke) == (0, done, "")
    already = f"CommandError: Key {key_id} is already revoked.\n"
    assert service.commands.run(*revoke) == (1, "", already)
    status, out, err = service.commands.run("revoke_key", key_id)
    assert (status, out) == (2, "")
    assert "the following arguments are required: --reason" in err


@pytest.mark.parametrize(
    ("encoding", "command", "status"),
    [("latin-1", "list_keys", 0), ("ascii", "list_keys --account жук", 1)],
)
def test_characters_missing_from_the_output_encoding_are_escaped(
    service: Service, encoding: str, command: str, status: int
) -> None:
    service.manage("issue_key", "--account", "Жук 名前", "--name", "ключ")
    environment = service.environment | {"PYTHONIOENCODING": encoding}
    done = run_manage(environment, *command.split(), text=False)
    assert done.returncode == status
    assert rb"\u0436\u0443\u043a" in (done.stdout + done.stderr).lower().replace(rb"\u0416", rb"\u0436")
    assert b"Traceback" not in done.stderr


def test_option_that_is_not_utf8_is_rejected_with_a_message(service: Service) -> None:
    done = run_manage(service.environment, b"issue_key", b"--account", b"caf\xe9")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "CommandError: An option is not valid UTF-8.\n"


def test_ctrl_c_while_the_file_is_read_imports_nothing(service: Service) -> None:
    before = service.manage("export_pets")
    importing = subprocess.Popen(
        [python(), "manage.py", "import_pets", "-"], cwd=ROOT, env=service.environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert importing.stdin is not None
    assert importing.stderr is not None
    importing.stdin.write(HEAD + b"Rex,Dogs,sold\n" * 20_000)  # More than a pipe holds: it is being read.
    importing.stdin.flush()
    os.kill(importing.pid, signal.SIGINT)
    assert importing.stderr.read() == b"CommandError: Stopped. Nothing was added.\n"
    assert importing.wait() == 130
    importing.communicate()
    assert service.manage("export_pets") == before


@pytest.mark.parametrize(
    ("command", "target", "reason"),
    [
        ("export_pets", "closed pipe", "Broken pipe"),
        ("list_peppers --json", "/dev/full", "No space left on device"),
    ],
)
def test_closed_output_is_reported_with_a_message(
    service: Service, command: str, target: str, reason: str
) -> None:
    if target == "closed pipe":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(target, os.O_WRONLY)
    done = run_manage(service.environment, *command.split(), stdout=writer)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == f"CommandError: Can't write standard output: {reason}.\n"


# --- The database --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def without_database() -> Iterator[CommandRunner]:
    """Runs commands with an unreachable database."""
    url = f"postgresql://petstore@127.0.0.1:{free_port()}/petstore"
    with closing(CommandRunner(os.environ | {"DATABASE_URL": url})) as commands:
        yield commands


@pytest.mark.parametrize(
    "command", ["migrate", "clearsessions", "check --database default", "list_keys", "housekeeping"]
)
def test_unreachable_database_is_reported_in_one_line(
    without_database: CommandRunner, command: str
) -> None:
    status, out, err = without_database.run(*command.split())
    assert status == 1, out
    assert err.count("\n") == 1, err
    assert "The database failed. connection failed:" in err
    assert err.endswith("manage.py doctor looks for the cause.\n")


def test_missing_migrations_are_reported_in_one_line(tmp_path: Path) -> None:
    environment = os.environ | {"DATABASE_URL": f"sqlite:///{tmp_path}/empty.sqlite3"}
    with closing(CommandRunner(environment)) as commands:
        for command in ("clearsessions", "list_keys"):
            status, _, err = commands.run(command)
            assert (status, err.count("\n")) == (1, 1)
            assert "The database failed. no such table: " in err
        assert "Traceback" in commands.run("clearsessions", "--traceback")[2]


# --- A full disk ---------------------------------------------------------------------------------


def test_service_starts_while_the_disk_of_its_log_is_full(service: Service, tmp_path: Path) -> None:
    port = free_port()
    errors = tmp_path / "errors"
    with Path("/dev/full").open("wb") as full, errors.open("wb") as stderr:
        serving = subprocess.Popen(
            [python(), "manage.py", "serve", "--port", str(port), "--workers", "1"],
            cwd=ROOT, env=service.environment, stdout=full, stderr=stderr,
        )  # fmt: skip
    try:
        wait_until(lambda: is_alive(port))
    finally:
        serving.terminate()
        assert serving.wait(STOP_SECONDS) == 0
    assert errors.read_text() == ""


def test_service_without_space_for_metrics_says_so(service: Service, tmp_path: Path) -> None:
    """A file system without free inodes rejects a new folder, as most full ones do."""
    full = f'mount -t tmpfs -o nr_inodes=1 tmpfs {tmp_path} && exec "$@"'
    isolated = ["unshare", "--mount", "--map-root-user", "sh", "-c", full, "isolated"]
    if subprocess.run([*isolated, "true"], check=False, capture_output=True).returncode:
        pytest.skip("This machine offers no mount namespaces.")
    serving = subprocess.run(
        [*isolated, python(), "manage.py", "serve", "--port", str(free_port())],
        cwd=ROOT, env=service.environment | {"METRICS_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert serving.returncode == 1
    assert serving.stderr.startswith("petstore: The metrics need a folder with space; set METRICS_DIR. ")
    assert serving.stderr.count("\n") == 1
