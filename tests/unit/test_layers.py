"""No module names an app of an upper layer in a string; import-linter checks the imports."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# They assemble the project, and health checks all of it.
ABOVE_THE_APPS = {"settings.py", "urls.py", "api_urls.py", "apps.py", "health"}
MENU = ROOT / "petstore/backoffice/navigation.py"  # Of the pages of all apps.
UPPER_APPS = {"petstore": r"\b(accounts|inventory)[._]\w", "accounts": r"\binventory[._]\w"}


def strings(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Expr):
            node.value = ast.Constant(None)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("app", UPPER_APPS)
def test_strings_name_no_upper_app(app: str) -> None:
    files = [
        file
        for file in sorted((ROOT / app).rglob("*.py"))
        if file.relative_to(ROOT / app).parts[0] not in ABOVE_THE_APPS and "migrations" not in file.parts
    ]
    found = [
        (str(file.relative_to(ROOT)), text)
        for file in files
        if file != MENU
        for text in strings(file)
        if re.search(UPPER_APPS[app], text)
    ]
    assert len(files) > 50
    assert found == []
