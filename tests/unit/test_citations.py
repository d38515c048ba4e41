"""Every cited decision, section of the contract, and file exists."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tests.conformance import test_rules

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".py", ".md", ".html", ".yaml", ".lua"}
IGNORED_FOLDERS = {"node_modules", "var", "build"}  # In addition to hidden folders.
# A number such as D9, or a range such as D2-D5, but neither %D9 in a URL nor D205, a rule of ruff.
DECISION = re.compile(r"(?<![%\w])D(\d{1,2})(?:-D(\d{1,2}))?\b")
SECTION = re.compile(r"""contract(?:,|:|'s)\s+"(\w[^"]*)\"""", re.IGNORECASE)


def headings(page: str, pattern: str) -> list[str]:
    return re.findall(pattern, (ROOT / "docs" / page).read_text(), re.MULTILINE)


DECISIONS = [int(number) for number in headings("decisions.md", r"^### D(\d+)$")]
SECTIONS = headings("contract.md", r"^##+ (.+)$")


def missing_citations(text: str) -> list[str]:
    cited = [
        number
        for first, last in DECISION.findall(text)
        for number in range(int(first), int(last or first) + 1)
    ]
    missing = [f"D{number}" for number in cited if number not in DECISIONS]
    return missing + [name for name in SECTION.findall(text) if name not in SECTIONS]


def files() -> Iterator[Path]:
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in IGNORED_FOLDERS]
        paths = [Path(folder, name) for name in names if Path(name).suffix in SUFFIXES]
        yield from (path for path in paths if path != Path(__file__))  # Contains wrong citations.


def test_every_citation_has_an_entry() -> None:
    missing_by_path = {str(path.relative_to(ROOT)): missing_citations(path.read_text()) for path in files()}
    assert len(missing_by_path) > 300
    assert {path: missing for path, missing in missing_by_path.items() if missing} == {}


def test_documents_name_files_that_exist() -> None:
    paths = [path.relative_to(ROOT).as_posix() for path in files()]
    for document in ROOT.glob("docs/*.md"):
        for named in re.findall(r"`(\w[\w./-]*/[\w.-]+\.(?:py|md|html|yaml|lua))`", document.read_text()):
            assert any(f"/{path}".endswith(f"/{named}") for path in paths), (document.name, named)


def test_decisions_are_numbered_without_a_gap_and_sections_have_unique_names() -> None:
    reserved = {59}  # Limits of a key.
    assert [number for number in range(1, 62) if number not in reserved] == DECISIONS
    assert len(SECTIONS) == len(set(SECTIONS)) > 10


def test_conformance_rules_cite_what_they_check() -> None:
    rules = {name: rule.__doc__ for name, rule in vars(test_rules).items() if name.startswith("test_")}
    rules |= {f"{rule} {request}": rule for rule, request, *_ in test_rules.REJECTIONS}
    rules.pop("test_request_is_rejected")
    assert [name for name, rule in rules.items() if not DECISION.search(rule or "")] == []
