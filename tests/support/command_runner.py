"""A process that has loaded the project and runs manage.py commands in forks, which saves their start-up.

Each line of standard input is a JSON array of arguments. The response is a line with the exit status,
standard output and standard error.
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


class CommandRunner:
    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.process: subprocess.Popen[str] | None = None

    def manage(self, *arguments: str) -> str:
        """Run a command that must succeed, and return its output."""
        status, out, err = self.run(*arguments)
        assert status == 0, err
        return out

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; returns exit status, standard output and standard error."""
        if self.process is None:
            self.process = subprocess.Popen(
                [python(), "-m", "tests.support.command_runner"],
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


def execute(arguments: list[str], out: IO[bytes], err: IO[bytes]) -> int:
    """Run a command in this fork, and return its exit status."""
    import manage

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    sys.argv = ["manage.py", *arguments]
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


def preload() -> None:
    """Load what each fork would otherwise load: the URLs, for the checks, and the code for keys."""
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
                # Skips the interpreter's clean-up, which takes longer than most commands.
                os._exit(execute(json.loads(line), out, err))
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            output = [file.read().decode() for file in (out, err) if file.seek(0) == 0]
        sys.stdout.write(json.dumps([status, *output]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
