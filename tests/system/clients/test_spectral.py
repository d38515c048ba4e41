"""Spectral, with its ruleset for OpenAPI, finds nothing to say about the document."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from petstore.api.openapi import views
from tests.support import npm

SPECTRAL = Path(__file__).parent / "spectral"


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What Spectral finds, of any severity, in the document and in one with a mistake."""
    packages = npm.install(SPECTRAL)
    folder = tmp_path_factory.mktemp("spectral")
    (folder / "served.json").write_bytes(views.as_json())
    mistaken = json.loads(views.as_json())
    mistaken["paths"]["/pets"]["get"]["operationId"] = "createPet"
    (folder / "mistaken.json").write_text(json.dumps(mistaken))
    done = subprocess.run(
        [
            packages / ".bin" / "spectral", "lint", "--ruleset", SPECTRAL / "ruleset.yaml",
            "--format", "json", "--fail-severity", "hint", "--quiet",
            folder / "served.json", folder / "mistaken.json",
        ],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr  # There are findings: those of the mistake.
    return list(json.loads(done.stdout))


def of(findings: list[dict[str, Any]], name: str) -> list[str]:
    return [
        f"{finding['code']}: {finding['message']} {finding['path']}"
        for finding in findings
        if Path(finding["source"]).name == name
    ]


def test_spectral_finds_nothing_of_any_severity(findings: list[dict[str, Any]]) -> None:
    assert of(findings, "served.json") == []


def test_spectral_finds_a_mistake(findings: list[dict[str, Any]]) -> None:
    (found,) = of(findings, "mistaken.json")
    assert found.startswith("operation-operationId-unique:")
