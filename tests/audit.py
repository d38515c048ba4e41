"""Checks the pinned packages for known vulnerabilities: what `make audit` and CI call.

The exit status is 1 if there are any. If the advisories are unavailable, the result is a warning, since a
network failure must not block a release; with `--strict`, the exit status is 2.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PINS = ("requirements.txt", "requirements-otel.txt")


def audit(pins: str) -> dict[str, Any]:
    """Return pip-audit's report on a requirements file, or an empty one if pip-audit fails."""
    program = str(Path(sys.executable).with_name("pip-audit"))
    options = ["--require-hashes", "--disable-pip", "--format", "json", "--requirement", pins]
    done = subprocess.run([program, *options], capture_output=True, text=True, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        print(done.stderr.strip().splitlines()[-1:] or "pip-audit printed nothing.")
        return {"dependencies": []}


def summarize(report: dict[str, Any]) -> tuple[list[str], int, int]:
    """Return the vulnerabilities in a report, how many packages were audited, and how many were not."""
    found, audited, skipped = [], 0, 0
    for package in report["dependencies"]:
        skipped += "skip_reason" in package
        audited += "skip_reason" not in package
        for vulnerability in package.get("vulns", []):
            fixes = ", ".join(vulnerability["fix_versions"]) or "no version yet"
            found.append(f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixes}")
    return found, audited, skipped


def main(arguments: list[str]) -> int:
    """Audit all files; return the exit status."""
    status = 0
    for pins in PINS:
        found, audited, skipped = summarize(audit(pins))
        print(f"{pins}: {audited} packages audited, {len(found)} known vulnerabilities.")
        print(*found, sep="\n", end="\n" if found else "")
        if skipped or not audited:
            unaudited = f"{skipped or 'all'} packages could NOT be audited"
            print(f"WARNING: {unaudited}: the advisories are unavailable.")
            status = status or (2 if "--strict" in arguments else 0)
        if found:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
