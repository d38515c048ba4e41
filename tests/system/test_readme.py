"""README.md, CONTRIBUTING.md and docs/ are correct, and the first commands work."""

import os
import re
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import httpx
import pytest

from tests.support.live import ROOT, STOP_SECONDS
from tests.support.servers import free_port, wait_until

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "tests").glob("*/README.md")),
]
README = (ROOT / "README.md").read_text()
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".env", "node_modules", "var", "*.sqlite3*", "migrated", "__pycache__", ".*_cache",
    ".hypothesis",
)  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_to_existing_files_and_sections(page: str) -> None:
    for target, section in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", (ROOT / page).read_text()):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        headings = re.findall(r"^##+ (.*)", path.read_text(), re.MULTILINE) if section else []
        anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
        assert not section or section in anchors, f"{target}#{section}"


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_and_files_that_a_page_names_exist(page: str) -> None:
    text = re.sub(r"https?://\S+", "", (ROOT / page).read_text())
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"`make ([a-z]+)`", text)) <= set(targets)
    for path in re.findall(r"\b((?:petstore|accounts|inventory|tests|templates|docs)/[\w./-]*\w)\b", text):
        assert (ROOT / path).exists() or list(ROOT.glob(f"*/{path}")), path


def test_index_leads_to_every_page() -> None:
    pages = {page for page in PAGES if page.startswith("docs/")}
    assert pages <= set(re.findall(r"\]\(([^)#:]+)\)", README))


def test_table_of_settings_has_every_variable_once() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows))
    read = set()
    for name in ("settings", "environment", "database_urls"):
        text = (ROOT / f"petstore/{name}.py").read_text()
        read |= set(re.findall(r'\b[a-z_]+\(\s*"([A-Z][A-Z_]+)"[,)]', text))
    # A variable of python-dotenv, and a normal form of Unicode.
    assert set(rows) == read - {"PYTHON_DOTENV_DISABLED", "NFKC"}


def test_release_has_one_version_in_all_files() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()
    unreleased, *releases = re.findall(r"^## (.*)", changes, re.MULTILINE)
    assert unreleased == "Unreleased"
    matches = [re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)", release) for release in releases]
    assert all(matches)
    dates = [date.fromisoformat(match[2]) for match in matches if match]
    assert dates == sorted(dates, reverse=True)
    version = releases[0].partition(" ")[0]
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == version
    for document in ("openapi.yaml", "released.openapi.yaml"):  # The version of the interface.
        assert "\n  version: 1.0.0\n" in (ROOT / "tests" / document).read_text()
    assert f"PETSTORE_VERSION={version}\n" in (ROOT / "deploy/petstore.env.example").read_text()


def test_help_lists_every_target() -> None:
    result = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    phony = re.findall(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
    assert sorted(re.findall(r"^([a-z]+) ", result.stdout, re.MULTILINE)) == sorted(phony)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `make run` in a fresh copy with the installed packages; yield its process and address."""
    copy = tmp_path / "petstore"
    shutil.copytree(ROOT, copy, ignore=NOT_COPIED)
    (copy / ".venv/bin").mkdir(parents=True)
    for made in (".venv/bin/python", ".venv/runtime.txt"):  # Installing needs the network.
        (copy / made).touch()
    port = str(free_port())
    hidden = {
        "SECRET_KEY", "API_KEY_PEPPERS", "DEMO_KEY", "BASE_URL", "STAGING_BASE_URL", "DATABASE_URL",
        "PYTHON_DOTENV_DISABLED", "SIGN_UP", "ACCESS_LOG",
    }  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | {"PORT": port}
    with subprocess.Popen(
        ["make", "run", f"BIN={ROOT / '.venv/bin'}"],
        cwd=copy, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process, f"http://localhost:{port}"
        finally:
            os.killpg(process.pid, signal.SIGINT)  # Ctrl-C.
            process.wait(STOP_SECONDS)


def test_two_commands_lead_to_a_first_call(fresh: tuple[subprocess.Popen[str], str]) -> None:
    process, address = fresh
    assert process.stdout is not None
    printed = ""
    while "Serving on" not in printed:
        line = process.stdout.readline()
        assert line, printed
        printed += line
    wait_until(lambda: httpx.get(f"{address}/healthz").raise_for_status())
    key = re.findall(r"psk_live_\w+", printed)[0]
    line = re.findall(r"^curl .*", README, re.MULTILINE)[0]
    call = line.replace("<key>", key).replace("http://localhost:8000", address)
    assert call in printed  # The service prints the same line.
    result = subprocess.run(["sh", "-c", call], capture_output=True, text=True, check=True)
    assert result.stdout.count('"id"') == 3
    assert "The home page shows another one" in printed
    demo_key = re.findall(r"psk_live_\w+", httpx.get(f"{address}/").text)[0]
    response = httpx.get(f"{address}/v1/pets", headers={"Authorization": f"Bearer {demo_key}"})
    assert (response.status_code, demo_key in printed) == (200, False)
    for page in re.findall(r"<http://localhost:8000(/[^>]*)>", README):
        assert httpx.get(address + page, follow_redirects=True).status_code == 200
    os.killpg(process.pid, signal.SIGINT)  # Ctrl-C.
    rest = process.stdout.read()
    assert "/v1/pets" not in rest  # Request lines would scroll the key away.
