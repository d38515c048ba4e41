"""The client packages build from the project's files, and contain all that they need."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import urllib3

from tests.support.live import ROOT
from tests.support.skips import needs_program
from tests.system.clients.outputs import build_typescript

SHOW = "import petstore_client as package; print(package.__file__, package.Client.__name__)"


@needs_program(importlib.util.find_spec("flit_core"), "flit-core")
def test_wheel_needs_only_urllib3(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "flit_core.wheel",
        "--outdir",
        str(tmp_path),
        str(ROOT / "clients/python"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    [wheel] = tmp_path.iterdir()
    with ZipFile(wheel) as files:
        [metadata] = (name for name in files.namelist() if name.endswith("/METADATA"))
        lines = files.read(metadata).decode().splitlines()
    needs = [line for line in lines if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert needs == ["Requires-Dist: urllib3>=2.2,<3"]
    (tmp_path / "urllib3").symlink_to(Path(urllib3.__file__).parent)
    path = os.pathsep.join([str(wheel), str(tmp_path)])
    program = [sys.executable, "-S", "-c", SHOW]  # Without the packages of the tests.
    done = subprocess.run(program, env={"PYTHONPATH": path}, check=True, capture_output=True, text=True)
    assert done.stdout.split() == [f"{wheel}/petstore_client/__init__.py", "Client"]


def test_typescript_package_has_all_files_and_needs_no_package() -> None:
    package = build_typescript() / "petstore-client"
    facts = json.loads((package / "package.json").read_text())
    assert "dependencies" not in facts
    assert all((package / file).exists() for file in facts["exports"]["."].values())
    assert {path.suffix for path in (package / "dist").iterdir()} == {".js", ".ts"}
