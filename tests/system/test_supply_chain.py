"""The service's packages are pinned, and listed in an SBOM."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.live import ROOT

PIN = re.compile(
    r"^([a-z0-9-]+)(?:\[[^\]]*\])?==([^ ;\\]+)((?:.*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE
)


def pins(file: str) -> dict[str, tuple[str, set[str]]]:
    """Version and hashes of each pinned package."""
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
    file = tmp_path / "sbom.json"
    subprocess.run(["make", "sbom", f"SBOM={file}"], cwd=ROOT, capture_output=True, check=True)
    bom = json.loads(file.read_text())
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
