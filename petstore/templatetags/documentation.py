"""How the documentation shows text and examples. Each example is a file; the tests run it from its page."""

import re

from django import template
from django.conf import settings
from django.template import Context
from django.template.loader import get_template
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

LANGUAGES = {"sh": "curl", "py": "Python", "mjs": "JavaScript"}


@register.simple_tag
def examples(name: str) -> SafeString:
    """Show the example of this name in each language."""
    return format_html_join("\n", "{}", ((example(f"{name}.{suffix}"),) for suffix in LANGUAGES))


@register.simple_tag
def example(file: str) -> SafeString:
    """Show one file of templates/docs/examples, with this service's address in it."""
    # The file is no HTML: it is filled in as it is, then escaped as a whole.
    context = Context({"base_url": settings.BASE_URL}, autoescape=False)
    code = get_template(f"docs/examples/{file}").template.render(context)  # type: ignore[attr-defined]
    return format_html(
        '<figure class="example"><figcaption>{}</figcaption>'
        '<pre tabindex="0" role="region" aria-label="Example: {}"><code id="{}">{}</code></pre></figure>',
        LANGUAGES[file.rpartition(".")[2]],
        file,
        file,
        code.strip(),
    )


@register.filter
def code(text: str) -> SafeString:
    """Show what stands between backticks as code, and the rest as text."""
    parts = re.split(r"`([^`]*)`", str(text))
    shown = (
        format_html("<code>{}</code>", part) if index % 2 else conditional_escape(part)
        for index, part in enumerate(parts)
    )
    return format_html_join("", "{}", ((part,) for part in shown))
