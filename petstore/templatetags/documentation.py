"""Template tags for the example programs of the documentation. The tests run each example."""

from functools import cache
from itertools import groupby

from django import template
from django.conf import settings
from django.template import Context
from django.template.loader import get_template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from petstore.api.link_header import page_url

register = template.Library()

LANGUAGES = {"sh": "curl", "py": "Python", "mjs": "JavaScript"}
# Pygments' token types that static/petstore/site.css has a class for.
COLOURED = {"Comment", "Keyword", "Builtin", "Literal", "Variable"}


@register.simple_tag
def examples(name: str) -> SafeString:
    """Render an example in each language; static/petstore/reading.js makes tabs of them."""
    figures = format_html_join("\n", "{}", ((example(f"{name}.{suffix}"),) for suffix in LANGUAGES))
    return format_html('<div class="examples">{}</div>', figures)


@register.simple_tag
def example(file: str) -> SafeString:
    """Render one file of templates/docs/examples with this service's URLs, and its output."""
    output = filled_in(f"docs/outputs/{file}.txt")
    return format_html(
        '<figure class="example" id="{}-example"><figcaption>{}</figcaption>'
        '<pre tabindex="0" role="region" aria-label="Example: {}"><code id="{}">{}</code></pre>'
        '<p class="prints">It prints, for example{}:</p>'
        '<pre class="output" tabindex="0" role="region" aria-label="Output: {}"><code>{}</code></pre>'
        "</figure>",
        file,
        LANGUAGES[file.rpartition(".")[2]],
        file,
        file,
        highlighted(filled_in(f"docs/examples/{file}"), file.rpartition(".")[2]),
        " (where “…” stands for more)" if "…" in output else "",
        file,
        output,
    )


def filled_in(name: str) -> str:
    """Render a file as plain text; the caller escapes it."""
    known = {"base_url": settings.BASE_URL, "site": page_url("").removesuffix("/")}
    context = Context(known, autoescape=False)
    text: str = get_template(name).template.render(context)  # type: ignore[attr-defined]
    return text.strip()


@register.filter
@cache
def highlighted(text: str, language: str) -> SafeString:
    from pygments import lex  # Slow to import.
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name({"mjs": "js"}.get(language, language), ensurenl=False)
    parts = groupby(
        lex(text, lexer), lambda token: next((name for name in token[0] if name in COLOURED), "")
    )
    spans = ((name.lower(), "".join(part for _, part in tokens)) for name, tokens in parts)
    return format_html_join(
        "",
        "{}",
        ((format_html('<span class="{}">{}</span>', *one) if one[0] else one[1],) for one in spans),
    )
