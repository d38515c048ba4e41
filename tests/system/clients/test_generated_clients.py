"""Clients generated from /openapi.json, as users generate them, work against the running service."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support import npm
from tests.support.live import ROOT, Service
from tests.support.thorough import needs_changed_document

HERE = Path(__file__).parent
TYPESCRIPT = HERE / "typescript"
SECONDS = 120


@pytest.fixture(scope="module")
def shop(service: Service) -> Service:
    """The service with the pets in it."""
    service.manage("seed_demo", "--pets", "30")
    return service


@pytest.fixture
def document(shop: Service, tmp_path: Path) -> Path:
    """The document, as a user fetches it: without a key."""
    path = tmp_path / "openapi.json"
    path.write_bytes(httpx.get(f"{shop.url}/openapi.json").raise_for_status().content)
    return path


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, timeout=SECONDS,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def drive(shop: Service, *command: str | Path, cwd: Path, **environment: str) -> None:
    """Run a driver, which lists two pets, creates one, orders it twice and cancels the order."""
    key = shop.issue_high_limit_key("Generated Client")
    printed = run(*command, f"{shop.url}/v1", key, cwd=cwd, **environment)
    assert json.loads(printed) == [2, True, "pet_not_available", 204]


def test_python_client_lists_creates_fetches_orders_and_cancels(
    shop: Service, document: Path, tmp_path: Path
) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # For ruff.
    run(
        Path(sys.executable).with_name("openapi-python-client"), "generate", "--path", document,
        "--meta", "none", "--output-path", tmp_path / "generated_client", "--fail-on-warning",
        cwd=tmp_path, PATH=path,
    )  # fmt: skip
    drive(shop, sys.executable, HERE / "drive.py", cwd=tmp_path, PYTHONPATH=str(tmp_path))


@needs_changed_document()
def test_typescript_client_compiles_strictly_lists_creates_fetches_orders_and_cancels(
    shop: Service, document: Path, tmp_path: Path
) -> None:
    packages = npm.install(TYPESCRIPT)
    for name in ("drive.ts", "package.json", "tsconfig.json"):
        shutil.copy(TYPESCRIPT / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(packages)
    tools = packages / ".bin"
    # Not schema.d.ts: the compiler skips declarations, since those of libraries take most of its time.
    run(tools / "openapi-typescript", document, "--output", tmp_path / "schema.ts", cwd=tmp_path)
    run(tools / "tsc", cwd=tmp_path)
    drive(shop, "node", tmp_path / "out" / "drive.js", cwd=tmp_path)


@pytest.mark.parametrize(
    "folder", [HERE / "typescript", HERE / "spectral", HERE / "retrying", ROOT / "clients/typescript"]
)
def test_lock_file_has_hashes_and_names_no_registry(folder: Path) -> None:
    packages = json.loads((folder / "package-lock.json").read_text())["packages"]
    own = packages.pop("")
    assert "integrity" not in own
    assert packages
    assert not [name for name, package in packages.items() if "resolved" in package]
    assert not [name for name, package in packages.items() if "integrity" not in package]
