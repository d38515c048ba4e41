"""A Python that knows what requirements.txt pins and nothing else, as where the service is deployed.

Libraries look for others that only tests need, and load them at the start: with those it would take a third
longer. And an import that the pins don't cover fails here, not there.
"""

import atexit
import re
import sys
from contextlib import ExitStack
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

PINS = Path(__file__).parents[2] / "requirements.txt"
PIN = re.compile(r"^([\w.-]+)(?:\[.*\])?==", re.MULTILINE)


@cache
def python() -> str:
    """Return the path of that Python: a virtual environment of links, which goes when this process ends."""
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    return make_environment(Path(until_the_end.enter_context(TemporaryDirectory(prefix="packages-"))))


def make_environment(folder: Path) -> str:
    """Make the environment in an empty folder; return its Python's path."""
    major, minor = sys.version_info[:2]
    packages = folder / f"lib/python{major}.{minor}/site-packages"
    packages.mkdir(parents=True)
    for name in PIN.findall(PINS.read_text()):
        link_package(name, packages)
    base = Path(sys.base_prefix, "bin", f"python{major}.{minor}")
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    (folder / "bin").mkdir()
    program = folder / "bin/python"
    program.symlink_to(base)
    return str(program)


def link_package(name: str, packages: Path) -> None:
    """Link what an installed package is made of; some are pinned for other systems than this one."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return
    for part in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
        link = packages / part
        if not link.exists():  # Some share a folder.
            link.symlink_to(str(package.locate_file(part)))
