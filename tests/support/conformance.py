"""Runs the conformance suite as `make conformance` does."""

import os
import subprocess
import sys

from tests.support.live import ROOT


def run_suite(url: str, key: str, *options: str, write: str = "") -> subprocess.CompletedProcess[str]:
    """Run the suite against a deployment. With `write`, it also creates a pet and orders it."""
    environment = {"CONFORMANCE_URL": url, "CONFORMANCE_KEY": key, "CONFORMANCE_WRITE": write}
    command = [sys.executable, "-m", "pytest", "-n", "0", "tests/conformance", *options]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, check=False, capture_output=True, text=True
    )


def check_conformance(url: str, key: str) -> None:
    """Run the suite with its writes, and assert that every rule holds."""
    done = run_suite(url, key, write="1")
    assert done.returncode == 0, done.stdout + done.stderr
