"""A preloaded manage.py: a process that has imported the service and runs each command in a fork.

A command takes a hundredth of the time of a process of its own. Each line of standard input is a JSON array
of arguments; the response is a line with exit status, standard output and standard error.
"""

import gc
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from tests.support.packages import python

ROOT = Path(__file__).parents[2]


class Clerk:
    """Runs manage.py commands with one environment."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.process: subprocess.Popen[str] | None = None

    def manage(self, *arguments: str) -> str:
        status, out, err = self.run(*arguments)
        assert status == 0, err
        return out

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """The command's exit status, standard output and standard error."""
        if self.process is None:
            self.process = subprocess.Popen(
                [python(), "-m", "tests.support.clerk"],
                cwd=ROOT, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        status, out, err = json.loads(self.process.stdout.readline())
        return int(status), str(out), str(err)

    def close(self) -> None:
        if self.process is not None:
            with self.process:
                assert self.process.stdin is not None
                self.process.stdin.close()
            self.process = None


def run_in_fork(arguments: list[str], out: IO[bytes], err: IO[bytes]) -> int:
    """Run a command in this process, a fork."""
    from django.core.management import execute_from_command_line

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    try:
        execute_from_command_line(["manage.py", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)
    except BaseException:  # noqa: BLE001  Python would print it, too.
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def preload() -> None:
    """Import what each fork would import itself: the URLs, which are checked, and the code about keys."""
    from django.core.checks import run_checks

    from accounts.management.commands import issue_key  # noqa: F401

    run_checks()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    import django

    django.setup()
    preload()
    gc.freeze()
    for line in sys.stdin:
        with TemporaryFile() as out, TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                # Interpreter shutdown takes longer than most commands.
                os._exit(run_in_fork(json.loads(line), out, err))
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said = [file.read().decode() for file in (out, err) if file.seek(0) == 0]
        sys.stdout.write(json.dumps([status, *said]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
