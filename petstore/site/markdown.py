"""Converts pages to Markdown (CommonMark with GitHub's tables)."""

import re
from html.parser import HTMLParser

# The Markdown before the content of a block element.
BLOCKS = {
    "h1": "\n\n# ",
    "h2": "\n\n## ",
    "h3": "\n\n### ",
    "h4": "\n\n#### ",
    "p": "\n\n",
    "figcaption": "\n\n",
    "ul": "\n",
    "ol": "\n",
    "li": "\n- ",
    "summary": "\n\n",
    "dt": "\n\n",
    "dd": ": ",
    "table": "\n\n",
}
SKIPPED = {"button", "form", "nav", "script", "noscript"}  # Useful only in a browser.
FENCE_LANGUAGES = {"sh": "sh", "py": "python", "mjs": "javascript"}


def convert_to_markdown(page: str, base_url: str) -> str:
    """Convert a page. `base_url`, such as https://example.com, completes links that start with a slash."""
    converter = MarkdownConverter(base_url)
    converter.feed(page)
    return converter.get_text()


class MarkdownConverter(HTMLParser):
    """Converts the content of `<main>`. Supports only the elements that templates/docs uses."""

    def __init__(self, base_url: str) -> None:
        super().__init__()
        self._base_url = base_url
        self._output: list[str] = []
        self._in_main = self._in_pre = False
        self._skipped_depth = self._cell_count = 0
        self._link_targets: list[str] = []

    def get_text(self) -> str:
        text = re.sub(r" +$", "", "".join(self._output), flags=re.MULTILINE)
        return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped_depth += tag in SKIPPED
        self._in_main |= tag == "main"
        if self._in_main and not self._skipped_depth:
            self._start_element(tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        if self._in_main and not self._skipped_depth:
            self._end_element(tag)
        self._skipped_depth -= tag in SKIPPED
        self._in_main &= tag != "main"

    def handle_data(self, data: str) -> None:
        if not self._in_main or self._skipped_depth:
            return
        if not self._in_pre:
            data = re.sub(r"\s+", " ", data)
            if not self._output or self._output[-1].endswith("\n"):
                data = data.lstrip()
        self._output.append(data)

    def _start_element(self, tag: str, attributes: dict[str, str | None]) -> None:
        self._output.append(BLOCKS.get(tag, ""))
        if tag == "pre":
            self._in_pre = True
        elif tag == "code" and self._in_pre:
            suffix = (attributes.get("id") or "").rpartition(".")[2]
            self._output.append(f"\n\n```{FENCE_LANGUAGES.get(suffix, '')}\n")
        elif tag in {"code", "strong"}:
            self._output.append("`" if tag == "code" else "**")
        elif tag == "a":
            href = attributes.get("href") or ""
            self._link_targets.append(self._base_url + href if href.startswith("/") else href)
            self._output.append("[")
        elif tag == "tr":
            self._cell_count = 0
        elif tag in {"th", "td"}:
            self._cell_count += 1
            self._output.append("| ")

    def _end_element(self, tag: str) -> None:
        if tag == "pre":
            self._in_pre = False
        elif tag == "code":
            self._output.append("\n```\n" if self._in_pre else "`")
        elif tag == "strong":
            self._output.append("**")
        elif tag == "a":
            self._output.append(f"]({self._link_targets.pop()})")
        elif tag in {"th", "td"}:
            self._output.append(" ")
        elif tag == "tr":
            self._output.append("|\n")
        elif tag == "thead":
            self._output.append("|---" * self._cell_count + "|\n")
