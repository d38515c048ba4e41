"""Template tags for the example programs of the documentation. The tests run each example."""

import json
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Any

from django import template
from django.conf import settings
from django.template import Context
from django.template.loader import get_template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from petstore.api.link_header import get_page_url

register = template.Library()

LANGUAGES = {"sh": "curl", "py": "Python", "mjs": "JavaScript"}
PACKAGES = {"py": "Python package", "mjs": "JavaScript package"}
EXAMPLES = settings.BASE_DIR / "templates/docs/examples"
# How the examples refer to the key, always within a string.
KEY_REF = {
    "sh": "$PETSTORE_KEY",
    "py": "{os.environ['PETSTORE_KEY']}",
    "mjs": "${process.env.PETSTORE_KEY}",
}
# The token types of Pygments that site.css has a class for.
HIGHLIGHTED_TOKENS = {"Comment", "Keyword", "Builtin", "Literal", "Variable"}


@register.inclusion_tag("docs/example-tabs.html")
def examples(name: str, key: str = "", more: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """Render an example in each language, with `key` filled in if given, then `more`, as tabs.

    Those with the client packages are first, if there are any.
    """
    packages = [f"client_{name}.{suffix}" for suffix in PACKAGES]
    files = [
        *(file for file in packages if (EXAMPLES / file).exists()),
        *(f"{name}.{suffix}" for suffix in LANGUAGES),
    ]
    return {"examples": [*(example(file, key) for file in files), *more]}


@register.inclusion_tag("docs/example.html")
def example(file: str, key: str = "") -> dict[str, Any]:
    """Render a file from templates/docs/examples, with its output."""
    language = file.rpartition(".")[2]
    printed = render_text(f"docs/outputs/{file}.txt")
    output = "\n".join(map(indent_json, printed.splitlines()))
    notes = ["indented here"] * (output != printed) + ["“…” stands for more"] * ("…" in output)
    code = render_text(f"docs/examples/{file}")
    markup = fill_in_key(code, language, key) if key else highlighted(code, language)
    titles = PACKAGES if file.startswith("client_") else LANGUAGES
    return {"file": file, "title": titles[language], "code": markup, "notes": notes, "output": output}


@register.inclusion_tag("docs/example-tabs.html")
def receivers(name: str) -> dict[str, Any]:
    """Render a receiver of webhooks in each language, from templates/docs/receivers."""
    return {
        "examples": [
            {
                "file": f"{name}.{suffix}",
                "title": LANGUAGES[suffix],
                "code": highlighted(render_text(f"docs/receivers/{name}.{suffix}"), suffix),
            }
            for suffix in PACKAGES
        ]
    }


def fill_in_key(code: str, language: str, key: str) -> SafeString:
    """Highlight an example that displays the key. copy.js copies the reference to the variable instead."""
    reference = KEY_REF[language]
    markup = highlighted(code.replace(reference, key), language)
    shown = format_html('<span data-copied="{}">{}</span>', reference, key)
    return SafeString(markup.replace(escape(key), shown))


def indent_json(line: str) -> str:
    """Indent a line if it is an object or an array of objects. An array may end in `…`."""
    try:
        value = json.loads(line.replace(", …]", ', "…"]')) if line.startswith(("{", "[{")) else None
    except ValueError:
        return line
    return json.dumps(value, indent=2, ensure_ascii=False).replace('"…"', "…") if value else line


def render_text(name: str) -> str:
    """Render a file with the URLs of this service. The caller has to escape the text."""
    urls = {"base_url": settings.BASE_URL, "site": get_page_url("").removesuffix("/")}
    context = Context(urls, autoescape=False)
    text: str = get_template(name).template.render(context)  # type: ignore[attr-defined]
    return text.strip()


@register.filter
@cache
def highlighted(text: str, language: str) -> SafeString:
    from pygments import lex  # Slow to import.
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name({"mjs": "js"}.get(language, language), ensurenl=False)
    spans = []
    for css_class, tokens in groupby(lex(text, lexer), get_css_class):
        part = "".join(token_text for _, token_text in tokens)
        spans.append(format_html('<span class="{}">{}</span>', css_class, part) if css_class else part)
    return format_html_join("", "{}", ((span,) for span in spans))


def get_css_class(token: tuple[Iterable[str], str]) -> str:
    """Return the class of a token, or an empty string if it is not highlighted."""
    token_type, _ = token
    return next((name.lower() for name in token_type if name in HIGHLIGHTED_TOKENS), "")
