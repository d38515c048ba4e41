"""A temporary Debian machine: systemd in namespaces, installed as docs/deploying.md says."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.servers import wait_until
from tests.system.deployment.engine import CERTIFICATES, MIRROR, VERSION, run
from tests.system.operations.upgrade import check_out

PROGRAMS = ("debootstrap", "systemd-nspawn", "unshare", "nsenter", "chroot")
PACKAGES = (
    "systemd,dbus,ca-certificates,curl,postgresql"  # A machine with its database.
    ",make,python3-venv,openssl,haproxy"  # Those that docs/deploying.md names.
)
INSTALLED = Path(f"opt/petstore-{VERSION}")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Its control groups are in a separate group, in the hierarchies that systemd uses. Like a real machine, it
# may change the settings of its network.
START = """
folder=$1; shift
for group; do mkdir "$group" && echo $$ > "$group/cgroup.procs" || exit; done
exec unshare --net --mount --pid --fork --kill-child --mount-proc sh -c '
    export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network
    ip link set lo up && exec systemd-nspawn --quiet --register=no --keep-unit --directory "$1" --boot
' machine "$folder"
"""


@dataclass
class Machine:
    root: Path
    process: subprocess.Popen[bytes]

    @property
    def init_pid(self) -> int:
        """The pid of systemd: a child of systemd-nspawn, which is the first process of the namespace."""
        pid = self.process.pid
        for _ in range(2):
            pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        return pid

    def command(self, *command: str) -> list[str]:
        """Wrap a command to run on the machine, as root."""
        namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]
        enter = ["nsenter", "--target", str(self.init_pid), *namespaces, "--"]
        return [*enter, "env", "-i", f"PATH={PATH}", *command]

    def run(self, *command: str) -> str:
        return run(self.command(*command))

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.run("systemctl", "show", "--property", name, "--value", unit).strip()


@contextmanager
def booted_machine() -> Iterator[Machine]:
    """Install Debian, and boot it. Killing its namespace's first process ends all others."""
    with tempfile.TemporaryDirectory(prefix="petstore-machine-", dir="/var/tmp") as name:
        root = Path(name) / "root"
        install_system(root)
        hierarchies = [Path("/sys/fs/cgroup", kind) for kind in ("unified", "systemd")]
        existing = [path for path in hierarchies if path.is_dir()] or [Path("/sys/fs/cgroup")]
        groups = [path / Path(name).name for path in existing]
        command = ["sh", "-c", START, "machine", str(root), *map(str, groups)]
        with (
            (Path(name) / "console").open("wb") as log,
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
        ):
            machine = Machine(root, process)
            try:
                wait_until(lambda: machine.run("systemctl", "is-system-running"))
                yield machine
            finally:
                process.kill()
                process.wait()
                for group in groups:
                    wait_until(partial(remove_group, group))
                run(["rm", "-rf", str(root)])  # Faster than Python.


def remove_group(group: Path) -> None:
    """Remove a control group with those below it, as soon as their processes have ended."""
    for path in sorted(group.rglob("*/"), reverse=True):
        with suppress(OSError):
            path.rmdir()
    group.rmdir()


def install_system(root: Path) -> None:
    """Install Debian with the servers, the files of the version, and the wheels that it needs."""
    run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root), MIRROR])
    for settings in root.glob("etc/postgresql/*/main/postgresql.conf"):
        # The installation chose another port if 5432 was in use here.
        settings.write_text(settings.read_text() + "\nport = 5432\n")
    version = root / INSTALLED
    version.mkdir(parents=True)
    check_out(version)
    shutil.copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
    requirements = f"/{INSTALLED}/requirements.txt"
    run(["chroot", str(root), "python3", "-m", "venv", "/tmp/venv"])
    pip = ["/tmp/venv/bin/pip", "download", "--quiet", "--no-deps", "--dest", "/wheels"]
    run(["chroot", str(root), *pip, "--requirement", requirements])
    (root / "etc/pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    # Far below systemd's default, so that a test can exceed it. journald multiplies it by up to 6.
    limits = root / "etc/systemd/journald.conf.d/limits.conf"
    limits.parent.mkdir(exist_ok=True)
    limits.write_text("[Journal]\nRateLimitIntervalSec=30s\nRateLimitBurst=100\n")
