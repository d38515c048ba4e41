"""The service offers the client packages that were built."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from petstore.site import client_packages

WHEEL = "petstore_client-9.9.9-py3-none-any.whl"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "python" / WHEEL
    path.parent.mkdir()
    path.write_bytes(b"wheel")
    monkeypatch.setattr(client_packages, "PACKAGES", {WHEEL: path})
    return path


def test_built_package_is_served(client: Client, built: Path) -> None:
    response = client.get(f"/docs/clients/{WHEEL}")
    assert (response.content, response["Content-Type"]) == (b"wheel", "application/zip")
    assert response["Content-Disposition"] == f'attachment; filename="{WHEEL}"'


def test_no_other_file_is_served(client: Client, built: Path) -> None:
    for name in ("other.whl", "..%2f..%2fmanage.py", "petstore_client-9.9.9.tgz"):
        assert client.get(f"/docs/clients/{name}").status_code == 404


def test_guides_install_the_packages_that_were_built(client: Client, built: Path, monkeypatch: Any) -> None:
    for page in ("quickstart", "clients"):
        text = client.get(f"/docs/{page}").text
        assert f"http://testserver/docs/clients/{WHEEL}" in text
        assert "npm install" not in text
    monkeypatch.setattr(client_packages, "PACKAGES", {})
    assert "This deployment does not offer the packages." in client.get("/docs/clients").text
