"""npm programs for tests, each in a folder whose lock file has hashes and no registry."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest


def install(folder: Path) -> Path:
    """The folder of the packages, installed if the lock file is newer. Skips the test without npm."""
    if shutil.which("npm") is None:
        reason = f"npm is missing: {folder.name} can't be tested. Install Node.js 20 or later."
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    packages = folder / "node_modules"
    installed, lock = packages / ".package-lock.json", folder / "package-lock.json"
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # Another process may be installing.
        if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
            done = subprocess.run(["npm", "ci"], cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    return packages
