"""Converts pages to Markdown (CommonMark with GitHub's tables)."""

import re
from html.parser import HTMLParser

BLOCKS = {"p": "\n\n", "h1": "\n\n# ", "h2": "\n\n## ", "h3": "\n\n### ", "h4": "\n\n#### ", "li": "\n- "}
BLOCKS |= {"figcaption": "\n\n", "ul": "\n", "ol": "\n", "dt": "\n\n", "dd": ": ", "table": "\n\n"}
SILENT = {"button", "nav", "script", "noscript"}  # Interactive elements.
FENCES = {"sh": "sh", "py": "python", "mjs": "javascript"}


class Writer(HTMLParser):
    """Converts the content of `<main>`; supports the elements that templates/docs uses."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self._out: list[str] = []
        self._inside = self._literal = False
        self._silent = self._cells = 0
        self._links: list[str] = []

    def text(self) -> str:
        lines = re.sub(r" +$", "", "".join(self._out), flags=re.MULTILINE)
        return re.sub(r"\n{3,}", "\n\n", lines).strip() + "\n"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._silent += tag in SILENT
        self._inside |= tag == "main"
        if not self._inside or self._silent:
            return
        self._out.append(BLOCKS.get(tag, ""))
        if tag == "pre":
            self._literal = True
        elif tag == "code" and self._literal:
            suffix = (given.get("id") or "").rpartition(".")[2]
            self._out.append(f"\n\n```{FENCES.get(suffix, '')}\n")
        elif tag in {"code", "strong"}:
            self._out.append("`" if tag == "code" else "**")
        elif tag == "a":
            self._links.append(self._full(given.get("href") or ""))
            self._out.append("[")
        elif tag == "tr":
            self._cells = 0
        elif tag in {"th", "td"}:
            self._cells += 1
            self._out.append("| ")

    def handle_endtag(self, tag: str) -> None:
        if self._inside and not self._silent:
            self._end(tag)
        self._silent -= tag in SILENT
        self._inside &= tag != "main"

    def _end(self, tag: str) -> None:
        if tag == "pre":
            self._literal = False
        elif tag == "code":
            self._out.append("\n```\n" if self._literal else "`")
        elif tag == "strong":
            self._out.append("**")
        elif tag == "a":
            self._out.append(f"]({self._links.pop()})")
        elif tag in {"th", "td"}:
            self._out.append(" ")
        elif tag == "tr":
            self._out.append("|\n")
        elif tag == "thead":
            self._out.append("|---" * self._cells + "|\n")

    def handle_data(self, data: str) -> None:
        if not self._inside or self._silent:
            return
        text = data if self._literal else re.sub(r"\s+", " ", data)
        starts_a_line = not self._literal and (not self._out or self._out[-1].endswith("\n"))
        self._out.append(text.lstrip() if starts_a_line else text)

    def _full(self, address: str) -> str:
        return self._base + address if address.startswith("/") else address


def markdown(page: str, base: str) -> str:
    """Convert a page; relative links are prefixed with `base`, such as https://example.com."""
    writer = Writer(base)
    writer.feed(page)
    return writer.text()
