"""A temporary container engine: dockerd in its own namespaces, and the images that it needs.

Without a registry, stand-ins made from Debian's packages replace the official images. They have the same
names, users, volumes and variables, as far as deploy/compose.yaml relies on them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.live import ROOT
from tests.support.servers import wait_until

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
PROGRAMS = ("dockerd", "docker", "docker-compose", "debootstrap", "unshare", "nsenter", "ip", "iptables")
REQUIREMENTS = ("requirements.txt", "requirements-otel.txt")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Docker 20.10 can't use a version 2 hierarchy that is mounted beside those of version 1.
START = """
umount /sys/fs/cgroup/unified 2>/dev/null
mount -t tmpfs tmpfs /run && ip link set lo up &&
exec dockerd --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" --host "unix://$1/socket"
"""
IMAGES = Path(__file__).parent / "images"
STAND_INS = {
    "haproxy:2.8": "haproxy.Dockerfile",
    "postgres:15": "postgres.Dockerfile",
    "prom/prometheus:v2.53.5": "prometheus.Dockerfile",
    "python:3.11-slim-bookworm": "python.Dockerfile",
}


def missing_programs(programs: tuple[str, ...] = PROGRAMS) -> list[str]:
    """Return the programs that are not installed. Only root can start an engine, or boot a machine."""
    missing = [name for name in programs if shutil.which(name) is None]
    return missing if os.getuid() == 0 else [*missing, "root privileges"]


@dataclass
class Engine:
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        host = {"DOCKER_HOST": f"unix://{self.folder}/socket", "DOCKER_CONFIG": str(self.folder / "config")}
        return os.environ | host | {"DOCKER_BUILDKIT": "0"}

    def docker(self, *arguments: str, **options: Any) -> str:
        return run(["docker", *arguments], env=self.environment, **options)

    def compose(self, folder: Path, *arguments: str) -> str:
        """Run Compose in a copy of deploy/, with its settings file."""
        command = ["docker-compose", "--env-file", "petstore.env", *arguments]
        return run(command, cwd=folder, env=self.environment)

    def inside(self, *command: str) -> list[str]:
        """Wrap a command to run in the network namespace of the engine."""
        return ["nsenter", "--target", str(self.engine_pid), "--net", "--", *command]

    @property
    def engine_pid(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(children.split()[0])


def run(command: list[str], **options: Any) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout[-6000:]}"
    return done.stdout


@contextmanager
def running_engine() -> Iterator[Engine]:
    """Start an engine. Killing its namespace's first process ends all its containers."""
    # Not in memory, like the tests' other files: images need a file system for overlays.
    with tempfile.TemporaryDirectory(prefix="petstore-engine-", dir="/var/tmp") as name:
        folder = Path(name)
        namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = ["unshare", *namespaces, "sh", "-c", START, "engine", name]
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as process,
        ):
            engine = Engine(folder, process)
            try:
                wait_until(lambda: engine.docker("version"))
                yield engine
            finally:
                process.kill()
                process.wait()
                clean_up(folder)


def clean_up(folder: Path) -> None:
    """Remove what a killed engine leaves behind: mounts, and empty control groups."""
    for mount in Path("/proc/self/mounts").read_text().splitlines():
        path = mount.split()[1]
        if path.startswith(str(folder)):
            subprocess.run(["umount", "--lazy", path], check=False)
    for group in Path("/sys/fs/cgroup").glob("*/docker/*/"):
        with suppress(OSError):
            group.rmdir()


def make_stand_ins(engine: Engine) -> None:
    """Build the images that deploy/ names, from Debian's packages and the pinned wheels."""
    with tempfile.TemporaryDirectory(dir=engine.folder) as folder:
        base = Path(folder) / "base"
        packages = "--include=python3,python3-pip,python3-venv,ca-certificates"
        run(["debootstrap", "--variant=minbase", packages, "bookworm", str(base), MIRROR])
        shutil.copy(IMAGES / "install.sh", base)
        noninteractive = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        run(["chroot", str(base), "sh", "/install.sh"], env=noninteractive)
        shutil.copy(CERTIFICATES, base / CERTIFICATES.relative_to("/"))
        # The stand-in downloads its wheels itself, since they depend on its version of Python.
        pins = [argument for name in REQUIREMENTS for argument in ("--requirement", f"/{name}")]
        for name in REQUIREMENTS:
            shutil.copy(ROOT / name, base)
        download = [
            "pip",
            "download",
            "--quiet",
            "--require-hashes",
            "--no-deps",
            "--dest",
            "/wheels",
            *pins,
        ]
        run(["chroot", str(base), *download])
        (base / "etc/pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        archive = Path(folder) / "base.tar"
        run(["tar", "-C", str(base), "-cf", str(archive), "."])
        engine.docker("import", str(archive), "debian-base")
        for tag, file in STAND_INS.items():
            engine.docker("build", "--tag", tag, "--file", str(IMAGES / file), str(IMAGES))
