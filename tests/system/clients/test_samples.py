"""Generated samples compile and get the response of the service, in each language."""

import html
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.utils.html import strip_tags

from petstore.site.samples import FURTHER
from tests.support.live import Service, live_service

RUN = {
    "php": ["php {0}"],
    "go": ["go vet {0}", "go run {0}"],
    "java": ["java {0}"],
    "cs": ["mcs -langversion:latest -r:System.Net.Http.dll {0}", "mono {1}.exe"],
    "rb": ["ruby {0}"],
}
# The forms of a template: with a body and an Idempotency-Key, and without these and a response body. The
# others differ in their values only.
EXPECTED = {"createPet": "201", "cancelOrder": "204"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with live_service(tmp_path_factory.mktemp("samples"), workers=1) as service:
        service.manage("seed_demo", "--pets", "30")
        yield service


@pytest.mark.parametrize("operation", EXPECTED)
@pytest.mark.parametrize("suffix", FURTHER)
def test_sample_gets_the_response_of_the_service(
    service: Service, tmp_path: Path, suffix: str, operation: str
) -> None:
    name = f"{operation}.{suffix}"
    page = httpx.get(f"{service.url}/docs/operations/{operation}", timeout=30).text
    (markup,) = re.findall(rf'<code id="{name}">(.*?)</code>', page, re.DOTALL)
    pet, order, key = prepare(service, name)
    code = re.sub(r"(/pets/|petId\W+)\d+", rf"\g<1>{pet}", html.unescape(strip_tags(markup)))
    (tmp_path / name).write_text(re.sub(r"(/orders/)\d+", rf"\g<1>{order}", code))
    printed = run(tmp_path / name, suffix, key)
    assert re.match(EXPECTED[operation] + " ", printed), printed


def prepare(service: Service, name: str) -> tuple[int, int, str]:
    """Return the ids of a pet that is for sale and of an order that can be cancelled, and its key."""
    key = str(service.issue(name)["key"])
    pet = {"name": "Biscuit", "categoryId": 1}
    with service.client(key) as client:
        ordered, other = (client.post("/pets", json=pet).raise_for_status().json()["id"] for _ in range(2))
        order = client.post("/store/orders", json={"petId": ordered}).raise_for_status()
    return other, order.json()["id"], key


def run(file: Path, suffix: str, key: str) -> str:
    """Compile and run a program; return what it printed."""
    options = {"cwd": file.parent, "env": os.environ | {"PETSTORE_KEY": key}}
    printed = ""
    for command in RUN[suffix]:
        program, *arguments = command.format(file, file.with_suffix("")).split()
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed, so {file.name} was not run.")
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stdout + done.stderr
        printed = done.stdout
    return printed
