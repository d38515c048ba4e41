"""Runs the guides' examples, and updates the sample outputs that the guides show beside them.

    python -m tests.system.clients.outputs

runs the examples of each language against a temporary service with the same demo data, those of the
quickstart first and in its order, and writes templates/docs/outputs. A file that differs only in volatile
values stays as it is.
"""

import fcntl
import hashlib
import html
import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import django
import httpx
import pytest
from django.utils.html import strip_tags

from tests import environment
from tests.support import npm
from tests.support.live import ROOT, Service, live_service

DOCS = Path(__file__).parents[3] / "templates/docs"
NAMES = sorted(path.name for path in (DOCS / "examples").iterdir())
CODE = re.compile(r'<code id="([a-z0-9_]+\.(?:sh|py|mjs))">(?!</code>)(.*?)</code>', re.DOTALL)
RUN = {"sh": "sh", "py": sys.executable, "mjs": "node"}
NEEDS = {"sh": ["curl", "openssl"], "py": [], "mjs": ["node"]}
NEED_AN_ORDER = {"cancel_order", "get_order", "orders"}
QUICKSTART = ["first_call.", "place_order.", "cancel_order."]  # The steps, which share a folder.
CLIENT_QUICKSTART = [f"client_{step}" for step in QUICKSTART]

HEADERS = {
    "content-type",
    "link",
    "location",
    "www-authenticate",
    "x-request-id",
}  # The others are omitted.
RECORD = re.compile(r"\d+ |\[")  # The prefix of a line that shows one of many rows.
MAX_RECORDS = 5
LONG_LIST = 300  # Characters.


def fill(service: Service) -> str:
    """Add the data that the examples show; return a key."""
    service.manage("seed_demo", "--pets", "300")
    return str(service.issue("Examples", "business")["key"])


def copy_from_pages(service: Service) -> dict[str, str]:
    """The examples as a reader copies them from the pages, by file."""
    from petstore.site.docs import GUIDES  # Needs Django, which a command sets up first.
    from petstore.site.reference import SAMPLES

    found: dict[str, str] = {}
    guides, operations = (
        (f"/docs/{name}" for name in GUIDES),
        (f"/docs/operations/{name}" for name in SAMPLES),
    )
    for page in ["/", "/docs", *guides, *operations]:
        for name, code in CODE.findall(httpx.get(service.url + page, timeout=30).text):
            text = html.unescape(strip_tags(code))
            assert found.setdefault(name, text) == text, "An example differs from page to page."
    return found


def prepare(service: Service, name: str, key: str, folder: Path) -> str:
    """Put the files that an example needs into the folder; return its key."""
    example = name.partition(".")[0].removeprefix("client_")
    if example in NEED_AN_ORDER:
        return issue_key_with_order(service, name, folder)
    if example == "events":
        url = f"{service.url}/v1/events?limit=100&since={datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        with service.client(key) as client:
            client.post("/pets", json={"name": "Biscuit", "categoryId": 1}).raise_for_status()
            place_an_order(client)
            wait_for_event(client, f"{url}&type=pet.status_changed")
        (folder / "events.next").write_text(url)
    return key


def issue_key_with_order(service: Service, account: str, folder: Path) -> str:
    """Place an order, and save it as the examples do; return the key of its new account."""
    key = str(service.issue(account)["key"])
    with service.client(key) as client:
        (folder / "order.json").write_text(place_an_order(client).text)
    return key


def place_an_order(client: httpx.Client) -> httpx.Response:
    """Order the first pet that is for sale."""
    pet = client.get("/pets?status=available&limit=1").json()[0]["id"]
    return client.post("/store/orders", json={"petId": pet}).raise_for_status()


def wait_for_event(client: httpx.Client, url: str) -> None:
    """Wait until the feed has an event: it appears shortly after the change."""
    deadline = time.monotonic() + 20
    while not client.get(url).raise_for_status().json():
        assert time.monotonic() < deadline, f"{url} has no events."
        time.sleep(0.05)


def run(name: str, code: str, key: str, folder: Path) -> str:
    """Run an example, which must succeed, as a reader does; return its output."""
    done = attempt(name, code, key, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout or done.stderr  # With a pipe, curl also prints its progress there.


def attempt(name: str, code: str, key: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run an example as a reader does."""
    language = name.rpartition(".")[2]
    for program in NEEDS[language]:
        if shutil.which(program) is None:
            assert os.environ.get("CI") != "true", f"CI must run every example: install {program}."
            pytest.skip(f"{program} is not installed, so {name} was not run.")
    if name.startswith("retry_"):
        link_library(name, folder)
    if name.startswith("client_") and language == "mjs":
        link_package(folder)
    script = folder / name
    script.write_text(code)
    own = {"PETSTORE_KEY": key, "PYTHONPATH": str(ROOT / "clients/python/src")}
    options: dict[str, Any] = {"cwd": folder, "env": os.environ | own, "text": True}
    command = [RUN[language], str(script)]
    if name.startswith("client_events"):
        return read_first_lines(command, **options)
    return subprocess.run(command, capture_output=True, timeout=60, check=False, **options)


def read_first_lines(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program that never ends until it has printed more lines than a page shows."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **streams, **options) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(MAX_RECORDS + 1)]
        process.kill()
        messages = process.communicate()[1]
    return subprocess.CompletedProcess(command, 0 if all(lines) else 1, "".join(lines), messages)


def link_library(name: str, folder: Path) -> None:
    """Link Node's packages beside the example; skip if Python's package is missing."""
    library = name.removeprefix("retry_").partition(".")[0]
    if name.endswith(".mjs") and not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(npm.install(Path(__file__).parent / "retrying"))
    elif name.endswith(".py") and importlib.util.find_spec(library) is None:
        assert os.environ.get("CI") != "true", f"CI must run every example: install {library}."
        pytest.skip(f"{library} is not installed, so {name} was not run.")


@cache
def build_typescript() -> Path:
    """Build the TypeScript package as npm installs it; return the folder that contains it.

    It is kept in build/ until a file of the package changes, since several test processes need it.
    """
    source = ROOT / "clients/typescript"
    compiler = npm.install(source) / ".bin/tsc"
    files = [*sorted(source.glob("*.json")), *sorted(source.glob("src/*"))]
    state = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    folder = ROOT / "build/typescript"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # Another process may be building.
        built = folder / state
        if not built.exists():
            for old in folder.glob("*/"):
                shutil.rmtree(old)
            package = folder / ".new/petstore-client"
            command = [str(compiler), "--outDir", str(package / "dist")]
            done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout
            shutil.copy(source / "package.json", package)
            package.parent.rename(built)
    return built


def link_package(folder: Path) -> None:
    """Make the TypeScript package available to an example."""
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(build_typescript())


def output(name: str) -> Path:
    """The file with the example's output, a template like the example."""
    return DOCS / "outputs" / f"{name}.txt"


def render_as_template(printed: str, service: Service) -> str:
    """An example's output as a page's template, where "…" stands for omissions."""
    responses = re.split(r"(?=HTTP/1\.1 )", printed)
    text = "\n\n".join("\n".join(shortened(response)) for response in responses if response)
    return text.replace(f"{service.url}/v1", "{{ base_url }}").replace(service.url, "{{ site }}") + "\n"


def shortened(response: str) -> Iterator[str]:
    """Yield the lines, with only those headers that are in HEADERS, and only the start of long lists."""
    body = response
    if response.startswith("HTTP/"):
        head, _, body = response.partition("\n\n")
        status, *headers = head.splitlines()
        yield status
        yield from (header for header in headers if header.partition(":")[0] in HEADERS)
        yield "…"
        if body:
            yield ""
    lines = body.splitlines()
    if len(lines) > MAX_RECORDS and all(map(RECORD.match, lines)):
        lines = [*lines[:MAX_RECORDS], "…"]
    for line in lines:
        if line.startswith("[{") and len(line) > LONG_LIST:
            _, end = json.JSONDecoder().raw_decode(line, 1)
            yield f"{line[:end]}, …]"
        else:
            yield line


def shape(text: str) -> str:
    """Replace volatile values by their kind."""
    from inventory.demo import NAMES as PETS  # Needs Django, as above.

    kinds = {
        r"\b[0-9a-f]{32}\b": "request id",
        r'(?<="id":)"\w+"': "public id",
        r"""null|None|["']?\d{4}-\d\d-\d\d(T[\d:.]+Z)?["']?""": "time or none",
        rf"\b({'|'.join(PETS)})\b": "pet",
        r"\b(available|pending|sold)\b": "pet's status",
        r"\d+": "number",
    }
    for pattern, kind in kinds.items():
        text = re.sub(pattern, kind, text)
    return text


def main() -> None:
    """Update the files, and name the examples that lack a program or package."""
    os.environ |= environment.FIXED | {"DJANGO_SETTINGS_MODULE": "petstore.settings"}
    django.setup()
    logging.getLogger("httpx").setLevel(logging.WARNING)  # It would log every request.
    for name in NAMES:
        output(name).touch()  # The page of a new example needs it.
    for suffix in RUN:
        with tempfile.TemporaryDirectory() as place, live_service(Path(place), workers=1) as service:
            update_outputs(service, suffix, Path(place))


def update_outputs(service: Service, suffix: str, place: Path) -> None:
    """Run the examples of a language, and update the files of those whose output differs."""
    key = fill(service)
    examples = copy_from_pages(service)
    steps = [step + suffix for step in [*QUICKSTART, *CLIENT_QUICKSTART] if step + suffix in examples]
    others = sorted(name for name in examples if name.endswith(suffix) and name not in steps)
    for name in [*steps, *others]:
        folder = place / ("quickstart" if name in steps else name)
        folder.mkdir(exist_ok=True)
        try:
            prepared = key if name in steps else prepare(service, name, key, folder)
            printed = run(name, examples[name], prepared, folder)
        except pytest.skip.Exception as reason:
            print(reason)
            continue
        new = render_as_template(printed, service)
        if shape(new) != shape(output(name).read_text()):
            output(name).write_text(new)
            print(f"Updated {name}.txt.")


if __name__ == "__main__":
    main()
