"""Looks for known vulnerabilities in the pinned packages: what `make audit` and CI call.

Exit status 1 if there are any. Where the advisories can't be had, nothing is known: that is said loudly and
fails nothing, for a network that is away must not stop a release; `--strict` fails then as well, with 2.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PINS = ("requirements.txt", "requirements-otel.txt")


def audit(pins: str) -> dict[str, Any]:
    """Return pip-audit's report on a file of pins; an empty one if it could not make any."""
    program = str(Path(sys.executable).with_name("pip-audit"))
    options = ["--require-hashes", "--disable-pip", "--format", "json", "--requirement", pins]
    done = subprocess.run([program, *options], capture_output=True, text=True, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        print(done.stderr.strip().splitlines()[-1:] or "pip-audit said nothing.")
        return {"dependencies": []}


def decision(report: dict[str, Any]) -> tuple[list[str], int, int]:
    """Return the vulnerabilities in a report, how many packages were audited, and how many were not."""
    found, audited, skipped = [], 0, 0
    for package in report["dependencies"]:
        skipped += "skip_reason" in package
        audited += "skip_reason" not in package
        for hole in package.get("vulns", []):
            better = ", ".join(hole["fix_versions"]) or "no version yet"
            found.append(f"{package['name']} {package['version']}: {hole['id']}, mended by {better}")
    return found, audited, skipped


def main(arguments: list[str]) -> int:
    """Audit all; return the exit status."""
    status = 0
    for pins in PINS:
        found, audited, skipped = decision(audit(pins))
        print(f"{pins}: {audited} packages audited, {len(found)} known vulnerabilities.")
        print(*found, sep="\n", end="\n" if found else "")
        if skipped or not audited:
            left_out = f"{skipped or 'all'} packages could NOT be audited"
            print(f"WARNING: {left_out}: the advisories can't be had here.")
            status = status or (2 if "--strict" in arguments else 0)
        if found:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
