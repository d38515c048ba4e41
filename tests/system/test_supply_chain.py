"""What the service is made of: pinned, listed in an SBOM, and looked up in the advisories."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import audit
from tests.support.live import ROOT

PIN = re.compile(
    r"^([a-z0-9-]+)(?:\[[^\]]*\])?==([^ ;\\]+)((?:.*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE
)


def pins(file: str) -> dict[str, tuple[str, set[str]]]:
    """Return version and hashes of each pinned package."""
    found = PIN.findall((ROOT / file).read_text())
    return {
        name: (version, set(re.findall(r"sha256:([0-9a-f]{64})", hashes)))
        for name, version, hashes in found
    }


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-otel.txt", "requirements-dev.txt"])
def test_every_package_is_pinned_with_a_hash(file: str) -> None:
    lines = re.findall(r"^[a-zA-Z0-9].*", (ROOT / file).read_text(), re.MULTILINE)
    assert len(lines) == len(pins(file)) > 10
    assert "index-url" not in (ROOT / file).read_text()


def test_sbom_lists_every_package_that_the_service_needs(tmp_path: Path) -> None:
    made = []
    for name in ("one.json", "two.json"):
        subprocess.run(
            ["make", "sbom", f"SBOM={tmp_path / name}"], cwd=ROOT, capture_output=True, check=True
        )
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]
    bom = json.loads(made[0])
    assert bom["bomFormat"] == "CycloneDX"
    assert bom["metadata"]["component"]["name"] == "petstore"
    listed = {
        component["name"]: (
            component["version"],
            {
                one["content"]
                for reference in component["externalReferences"]
                for one in reference["hashes"]
            },
        )
        for component in bom["components"]
    }
    assert listed == pins("requirements.txt")


# --- The advisories ------------------------------------------------------------------------------

SOUND = {"name": "django", "version": "5.2.1", "vulns": []}
HOLE = {"id": "PYSEC-1", "fix_versions": ["5.2.2"], "aliases": [], "description": ""}
SKIPPED = {"name": "granian", "skip_reason": "Dependency not found"}


@pytest.mark.parametrize(
    ("packages", "options", "status", "said"),
    [
        ([SOUND], [], 0, "1 packages audited, 0 known"),
        ([SOUND | {"vulns": [HOLE]}], [], 1, "django 5.2.1: PYSEC-1, mended by 5.2.2"),
        ([SOUND, SKIPPED], [], 0, "WARNING: 1 packages could NOT be audited"),
        ([SOUND, SKIPPED], ["--strict"], 2, "WARNING"),
        ([SOUND | {"vulns": [HOLE]}, SKIPPED], ["--strict"], 1, "PYSEC-1"),
        ([], [], 0, "WARNING: all packages could NOT be audited"),
    ],
)
def test_audit_fails_on_what_is_known_and_says_what_is_not(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    packages: list[dict[str, Any]],
    options: list[str],
    status: int,
    said: str,
) -> None:
    monkeypatch.setattr(audit, "audit", lambda pins: {"dependencies": packages})
    assert audit.main(options) == status
    assert said in capsys.readouterr().out
