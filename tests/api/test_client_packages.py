"""The service offers the client packages that were built."""

from pathlib import Path

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


@pytest.mark.parametrize("name", ["other.whl", "..%2f..%2fmanage.py", "petstore_client-9.9.9.tgz"])
def test_no_other_file_is_served(client: Client, built: Path, name: str) -> None:
    assert client.get(f"/docs/clients/{name}").status_code == 404


@pytest.mark.parametrize("page", ["quickstart", "clients"])
def test_guides_install_the_packages_that_were_built(client: Client, built: Path, page: str) -> None:
    text = client.get(f"/docs/{page}").text
    assert f"http://testserver/docs/clients/{WHEEL}" in text
    assert "npm install" not in text


def test_guide_says_that_no_package_was_built(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_packages, "PACKAGES", {})
    assert "This deployment does not offer the packages." in client.get("/docs/clients").text
