"""Spectral, with its ruleset for OpenAPI, reports nothing about the document but a planted mistake."""

import json
import subprocess
from pathlib import Path

from petstore.api.openapi import views
from tests.support import npm
from tests.support.thorough import needs_changed_document

SPECTRAL = Path(__file__).parent / "spectral"


@needs_changed_document()
def test_spectral_finds_only_the_planted_mistake(tmp_path: Path) -> None:
    packages = npm.install(SPECTRAL)
    mistaken = tmp_path / "mistaken.json"
    document = json.loads(views.render_json())
    document["paths"]["/pets"]["get"]["operationId"] = "createPet"
    mistaken.write_text(json.dumps(document))
    done = subprocess.run(
        [
            packages / ".bin" / "spectral", "lint", "--ruleset", SPECTRAL / "ruleset.yaml",
            "--format", "json", "--fail-severity", "hint", "--quiet", mistaken,
        ],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr  # The only finding is the planted mistake.
    found = [finding["code"] for finding in json.loads(done.stdout)]
    assert found == ["operation-operationId-unique"], done.stdout
