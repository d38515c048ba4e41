"""A container engine for the tests of the deployment; only THOROUGH=1 starts one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from secrets import token_urlsafe

import pytest

from tests.support.live import ROOT
from tests.system.deployment.engine import VERSION, Engine, make_stand_ins, missing_programs, running_engine

THOROUGH = os.environ.get("THOROUGH", "") not in ("", "0")  # CI=true alone is not enough: it takes minutes.
HOST = "api.example.com"


def require(missing: list[str]) -> None:
    """Skip the test without THOROUGH=1, or if programs are missing; with THOROUGH=1, these fail it."""
    if not THOROUGH:
        pytest.skip("It takes minutes: set THOROUGH=1.")
    assert not missing, f"THOROUGH=1 needs {', '.join(missing)}."


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A container engine that has the stand-ins of the official images."""
    require(missing_programs())
    with running_engine() as engine:
        make_stand_ins(engine)
        yield engine


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """The image of the checked-out version, built as docs/deploying.md says."""
    engine.docker("build", "--tag", f"petstore:{VERSION}", str(ROOT))
    return f"petstore:{VERSION}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of deploy/ with a filled-in petstore.env and a certificate."""
    folder = tmp_path / "deploy"
    shutil.copytree(ROOT / "deploy", folder)
    password = token_urlsafe(16)
    example = (folder / "petstore.env.example").read_text()
    text = example.replace("SECRET_KEY=", f"SECRET_KEY={token_urlsafe(48)}")
    text = text.replace("API_KEY_PEPPERS=", f"API_KEY_PEPPERS=1:{token_urlsafe(48)}")
    text = text.replace("POSTGRES_PASSWORD=", f"POSTGRES_PASSWORD={password}").replace(
        ":PASSWORD@", f":{password}@"
    )
    (folder / "petstore.env").write_text(text)
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    bundle = folder / "certificate.pem"
    bundle.write_text(certificate.read_text() + key.read_text())
    bundle.chmod(0o400)
    os.chown(bundle, 99, -1)
    return folder
