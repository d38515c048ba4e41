"""The expression evaluator: the supported subset of JavaScript, and what it rejects."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

SCRIPT = Path("petstore/static/petstore/expressions.js").read_text()

# The part of Alpine that the evaluator uses.
ALPINE = """
window.Alpine = {
  setEvaluator: (evaluator) => (window.evaluator = evaluator),
  closestDataStack: () => [window.data],
  mergeProxies: (all) => new Proxy({}, {
    has: (_, name) => all.some((one) => name in one),
    get: (_, name) => all.find((one) => name in one)?.[name],
    set: (_, name, value) => ((all.find((one) => name in one) ?? all.at(-1))[name] = value, true),
  }),
};
"""
RUN = """
([data, expression]) => {
  window.data = { ...data, double() { return this.number * 2; }, apply: (act, to) => act(to) };
  let result;
  evaluator(document.body, expression)((value) => (result = value));
  const after = Object.fromEntries(Object.keys(data).map((name) => [name, window.data[name]]));
  return [result === undefined ? null : result, after];
}
"""


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Page:
    page = chromium.new_page()
    page.evaluate(ALPINE)
    page.evaluate(SCRIPT)
    page.evaluate("document.dispatchEvent(new Event('alpine:init'))")
    return page


@pytest.fixture
def errors(page: Page) -> list[str]:
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text))
    return found


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 % 4 - -1", 4),
        ("10 - 4 - 3", 3),
        ("'it\\'s' + \" here\"", "it's here"),
        ("!open", True),
        ("open || number", 2),
        ("open && missing.name", False),
        ("number === 2 ? 'two' : 'other'", "two"),
        ("open ? 1 : number != 2 ? 2 : 3", 3),
        ("number <= 2 && number >= 2", True),
        ("null == undefined", True),
        ("[1, 'a', [true]]", [1, "a", [True]]),
        ("{ open: !open, 'a b': 1, number }", {"open": True, "a b": 1, "number": 2}),
        ("{}", {}),
        ("words.length", 2),
        ("words[number - 1]", "b"),
        ("words.includes('b') && !words.includes('c')", True),
        ("double()", 4),
        ("double", 4),
        ("apply(value => value + number, 5)", 7),
        ("words.map(word => word + '!').join(' ')", "a! b!"),
        ("new Date(0).getTime()", 0),
        ("$el.tagName", "BODY"),
        ("'light' == theme_ && 'a' || 'b'", "b"),
        ("window.location.href", "about:blank"),
        ("", None),
    ],
)
def test_expression_evaluates_to_its_value(
    page: Page, errors: list[str], expression: str, value: Any
) -> None:
    data = {"open": False, "number": 2, "words": ["a", "b"], "theme_": "dark"}
    assert page.evaluate(RUN, [data, expression])[0] == value
    assert not errors


@pytest.mark.parametrize(
    ("expression", "after"),
    [
        ("open = !open", {"open": True, "number": 2}),
        ("open = true; number = 5;", {"open": True, "number": 5}),
        ("if (number === 2) { open = true } else { number = 0 }", {"open": True, "number": 2}),
        ("if (!number) number = 1; else number = 3", {"open": False, "number": 3}),
        ("if (open) number = 9", {"open": False, "number": 2}),
    ],
)
def test_statement_changes_its_scope(
    page: Page, errors: list[str], expression: str, after: dict[str, Any]
) -> None:
    assert page.evaluate(RUN, [{"open": False, "number": 2}, expression])[1] == after
    assert not errors


@pytest.mark.parametrize(
    "expression",
    [
        "window.document.title", "document.cookie", "fetch('/')", "eval('1')", "words.constructor",
        "words['constr' + 'uctor']", "words.__proto__.x = 1", "''.constructor.constructor('return 1')()",
        "$el.ownerDocument.cookie", "$el.ownerDocument.defaultView.fetch('/')", "$el.getRootNode().cookie",
        "globalThis", "unknown", "1 +", "words[0", "1 = 2", "`text`", "a => { b }; }",
    ],
)  # fmt: skip
def test_unsupported_expression_is_rejected_and_reported(
    page: Page, errors: list[str], expression: str
) -> None:
    assert page.evaluate(RUN, [{"words": ["a"]}, expression])[0] is None
    assert errors
