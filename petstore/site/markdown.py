"""Converts pages to Markdown (CommonMark with GitHub's tables)."""

import re
from functools import lru_cache
from typing import Any

SKIPPED = ["button", "form", "nav", "script", "noscript"]  # Useful only in a browser.
FENCE_LANGUAGES = {"py": "python", "mjs": "javascript", "cs": "csharp", "rb": "ruby"}


def convert_to_markdown(page: str, base_url: str) -> str:
    """Convert the `<main>` of a page. `base_url`, such as https://example.com, completes local links."""
    return convert_main("<main" + page.partition("<main")[2].partition("</main>")[0], base_url)


@lru_cache(maxsize=100)  # Slow, but the same for all visitors, except for the accounts of members.
def convert_main(page: str, base_url: str) -> str:
    from bs4 import BeautifulSoup  # Slow to import.
    from markdownify import ATX, MarkdownConverter

    main: Any = BeautifulSoup(page, "html.parser").main
    for element in main(SKIPPED):
        element.decompose()
    for link in main("a", href=re.compile("^/")):
        link["href"] = base_url + link["href"]
    converter = MarkdownConverter(
        heading_style=ATX, bullets="-", autolinks=False, escape_asterisks=False, escape_underscores=False,
        code_language_callback=get_fence_language,
    )  # fmt: skip
    return converter.convert_soup(main).strip() + "\n"


def get_fence_language(pre: Any) -> str:
    """Return the language of a code block: the suffix of its ID, such as `listPets.py`."""
    suffix = pre.code.get("id", "").rpartition(".")[2] if pre.code else ""
    return FENCE_LANGUAGES.get(suffix, suffix)
