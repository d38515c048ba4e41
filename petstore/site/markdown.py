"""Converts pages to Markdown (CommonMark with GitHub's tables)."""

import re
from html.parser import HTMLParser

# The Markdown at the start and at the end of an element. handle_starttag() has code blocks and links.
START = dict.fromkeys(("p", "figcaption", "summary", "dt", "table"), "\n\n") | {
    "h1": "\n\n# ", "h2": "\n\n## ", "h3": "\n\n### ", "h4": "\n\n#### ", "ul": "\n", "ol": "\n",
    "li": "\n- ", "dd": ": ", "strong": "**", "code": "`", "a": "[", "th": "| ", "td": "| ",
}  # fmt: skip
END = {"strong": "**", "code": "`", "th": " ", "td": " ", "tr": "|\n"}
SKIPPED = {"button", "form", "nav", "script", "noscript"}  # Useful only in a browser.
FENCE_LANGUAGES = {"sh": "sh", "py": "python", "mjs": "javascript"}


def convert_to_markdown(page: str, base_url: str) -> str:
    """Convert the `<main>` of a page. `base_url`, such as https://example.com, completes local links."""
    converter = MarkdownConverter(base_url)
    converter.feed(page.partition("<main")[2].partition(">")[2].partition("</main>")[0])
    text = re.sub(r" +$", "", converter.text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


class MarkdownConverter(HTMLParser):
    """Supports only the elements that templates/docs uses."""

    def __init__(self, base_url: str) -> None:
        super().__init__()
        self.text = ""
        self._base_url = base_url
        self._in_pre = False
        self._skipped_depth = self._columns = 0
        self._link = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        start = START.get(tag, "")
        if tag == "code" and self._in_pre:
            language = FENCE_LANGUAGES.get(attributes.get("id", "").rpartition(".")[2], "")
            start = f"\n\n```{language}\n"
        elif tag == "a":
            href = attributes.get("href", "")
            self._link = self._base_url + href if href.startswith("/") else href
        self._in_pre |= tag == "pre"
        self._columns = 0 if tag == "tr" else self._columns + (tag in {"th", "td"})
        self._skipped_depth += tag in SKIPPED
        self._append(start)

    def handle_endtag(self, tag: str) -> None:
        ends = END | {"a": f"]({self._link})", "thead": "|---" * self._columns + "|\n"}
        self._append("\n```\n" if tag == "code" and self._in_pre else ends.get(tag, ""))
        self._in_pre &= tag != "pre"
        self._skipped_depth -= tag in SKIPPED

    def handle_data(self, data: str) -> None:
        if not self._in_pre:
            data = re.sub(r"\s+", " ", data)
            data = data.lstrip() if self.text.endswith("\n") or not self.text else data
        self._append(data)

    def _append(self, text: str) -> None:
        if not self._skipped_depth:
            self.text += text
