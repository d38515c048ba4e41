"""A Python with only the packages of requirements.txt, as in a deployment.

Libraries import optional packages that only tests need, which would make each start a third longer. And an
import that the pins don't cover fails here, not in production.
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
# Held here as well: from Python 3.13 on, forked processes clear atexit, and would delete the folder.
until_the_end = ExitStack()
atexit.register(until_the_end.close)
PIN = re.compile(r"^([\w.-]+)(?:\[.*\])?==", re.MULTILINE)


@cache
def python() -> str:
    """The path of that Python: a virtual environment of links, deleted when this process exits."""
    return make_environment(Path(until_the_end.enter_context(TemporaryDirectory(prefix="packages-"))))


def make_environment(folder: Path) -> str:
    """Create the environment in an empty folder; its Python's path."""
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
    """Link the files of an installed package; some are pinned for other systems."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return
    for part in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
        link = packages / part
        if not link.exists():  # Namespace packages share a folder.
            link.symlink_to(str(package.locate_file(part)))
