"""Runs manage.py in forks of a process that has loaded the service, which saves most of each start.

    python -m tests.support.preloaded DESCRIPTOR

accepts connections on this listening socket until its standard input is closed. It has imported the
libraries. For each connection it forks a process that loads the service with the environment it receives,
and then runs each command that it receives in another fork. Nothing differs from a process of its own but
the interpreter's options, such as PYTHONPATH.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from multiprocessing.connection import Client, Connection, Pipe
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

from tests.support.packages import python

ROOT = Path(__file__).parents[2]


class Forked:
    """A running command, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, status: Connection) -> None:
        self.status = status
        self.pid: int = status.recv()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode if self.returncode is not None or not self.status.poll() else self.wait()

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not self.status.poll(timeout):
                raise subprocess.TimeoutExpired("manage.py", timeout or 0)
            self.returncode = int(self.status.recv())
            self.status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class CommandRunner:
    """Runs commands with an environment, in forks of a process that has loaded the service."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.connection: Connection | None = None

    def start(self, *arguments: str, stdout: IO[bytes], stderr: IO[bytes]) -> Forked:
        """Start manage.py with these arguments, and with an empty standard input."""
        if self.connection is None:
            self.connection = Client(preloaded())
            self.connection.send(self.environment)
        status, theirs = Pipe(duplex=False)
        self.connection.send(arguments)
        for stream in (stdout, stderr, theirs):
            send_handle(self.connection, stream.fileno(), None)
        theirs.close()
        return Forked(status)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; return exit status, standard output and standard error."""
        with TemporaryFile() as out, TemporaryFile() as err:
            status = self.start(*arguments, stdout=out, stderr=err).wait()
            texts = [file.read().decode() for file in (out, err) if file.seek(0) == 0]
        return status, texts[0], texts[1]

    def manage(self, *arguments: str) -> str:
        """Run a command that must succeed, and return its output."""
        status, out, err = self.run(*arguments)
        assert status == 0, err
        return out

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


@cache
def preloaded() -> str:
    """The socket of a process that has imported the libraries: that of this session, or a new one's."""
    if shared := os.environ.get("PRELOADED"):
        return shared
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    path = f"{until_the_end.enter_context(TemporaryDirectory())}/socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        process = subprocess.Popen(
            [python(), "-m", "tests.support.preloaded", str(listener.fileno())],
            cwd=ROOT, stdin=subprocess.PIPE, pass_fds=[listener.fileno()],
        )  # fmt: skip
    until_the_end.callback(process.communicate)
    return path


# --- In the process that it starts ---------------------------------------------------------------


def import_libraries() -> None:
    """Import what the service imports, except what needs settings: itself and its installed apps."""
    names, theirs = Pipe(duplex=False)
    if os.fork() == 0:
        os.environ["DATABASE_URL"] = "postgresql://unused/unused"  # More libraries than SQLite's.
        load()
        from django.conf import settings

        import_module("petstore.server.supervisor")
        apps = tuple(f"{app.partition('.')[0]}." for app in settings.INSTALLED_APPS if "django." not in app)
        unready = (*apps, "django.contrib.", "__main__.")
        theirs.send([name for name in sys.modules if not f"{name}.".startswith(unready)])
        os._exit(0)
    theirs.close()
    for name in names.recv():
        with suppress(ImportError):
            import_module(name)


def load() -> None:
    """Load the service, its URLs and the code for keys, with the settings of the environment."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    import django
    from django.core.checks import run_checks

    django.setup()
    run_checks()
    import_module("accounts.management.commands.issue_key")


def serve(connection: Connection) -> None:
    """Run the commands that arrive, each in a fork of a fork that waits for it."""
    environment = connection.recv()
    os.environ.clear()
    os.environ.update(environment)
    with suppress(Exception):  # The command reports it.
        load()
    gc.freeze()
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return
        handles = [recv_handle(connection) for _ in range(3)]
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = Connection(handles[2])
            child = os.fork()
            if child == 0:
                # Skips the interpreter's clean-up, which takes longer than most commands.
                os._exit(execute(arguments, *handles[:2]))
            status.send(child)
            status.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            os._exit(0)
        for handle in handles:
            os.close(handle)


def execute(arguments: list[str], out: int, err: int) -> int:
    """Run a command in this process, and return its exit status."""
    import manage

    for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
        os.dup2(descriptor, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["manage.py", *arguments]
    os.execv = supervise  # type: ignore[assignment]
    try:
        manage.main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
            return 1
        return ended.code or 0
    except BaseException:  # noqa: BLE001  As the interpreter does.
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def supervise(_: str, command: list[str]) -> Any:
    """Run the supervisor, which `manage.py serve` would execute, in this process."""
    from petstore.server import supervisor

    assert json.loads(command[-1])
    sys.argv = command[-2:]
    supervisor.main()
    sys.exit()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C on a terminal is for the tests.
    import_libraries()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # No fork becomes a zombie.
    listener = socket.socket(fileno=int(sys.argv[1]))
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        accepted, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            serve(Connection(accepted.detach()))
            os._exit(0)
        accepted.close()


if __name__ == "__main__":
    main()
