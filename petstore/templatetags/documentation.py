"""How the documentation shows text and examples. Each example is a file; the tests run it from its page."""

import re

from django import template
from django.conf import settings
from django.template import Context
from django.template.loader import get_template
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

from petstore.api.links import page_url

register = template.Library()

LANGUAGES = {"sh": "curl", "py": "Python", "mjs": "JavaScript"}


@register.simple_tag
def examples(name: str) -> SafeString:
    """Show the example of this name in each language; static/petstore/reading.js makes tabs of them."""
    shown = format_html_join("\n", "{}", ((example(f"{name}.{suffix}"),) for suffix in LANGUAGES))
    return format_html('<div class="examples">{}</div>', shown)


@register.simple_tag
def example(file: str) -> SafeString:
    """Show one file of templates/docs/examples, with this service's address in it, and what it prints."""
    return format_html(
        '<figure class="example" id="{}-example"><figcaption>{}</figcaption>'
        '<pre tabindex="0" role="region" aria-label="Example: {}"><code id="{}">{}</code></pre>'
        '<p class="prints">It prints, for example:</p>'
        '<pre class="output" tabindex="0" role="region" aria-label="Output: {}"><code>{}</code></pre>'
        "</figure>",
        file,
        LANGUAGES[file.rpartition(".")[2]],
        file,
        file,
        filled_in(f"docs/examples/{file}"),
        file,
        filled_in(f"docs/outputs/{file}.txt"),
    )


def filled_in(name: str) -> str:
    """Return a file of templates, which is no HTML: it is filled in as it is, to be escaped as a whole."""
    known = {"base_url": settings.BASE_URL, "site": page_url("").removesuffix("/")}
    context = Context(known, autoescape=False)
    text: str = get_template(name).template.render(context)  # type: ignore[attr-defined]
    return text.strip()


@register.filter
def code(text: str) -> SafeString:
    """Show what stands between backticks as code, and the rest as text."""
    parts = re.split(r"`([^`]*)`", str(text))
    shown = (
        format_html("<code>{}</code>", part) if index % 2 else conditional_escape(part)
        for index, part in enumerate(parts)
    )
    return format_html_join("", "{}", ((part,) for part in shown))
