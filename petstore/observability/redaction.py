"""Takes secrets out of text that will be logged, whoever wrote it: a library, an exception, a client."""

import re

# Repetitions are bounded where a text could otherwise make a search slow.
RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # Headers, to the end of the line.
    (re.compile(r"""(\b(?:set-)?cookie["']?\s*[:=]\s*)[^\r\n]+""", re.IGNORECASE), r"\1***"),
    (re.compile(r"(\b(?:bearer|basic)\s+)[\w.~+/=%-]+", re.IGNORECASE), r"\1***"),
    # name=value, name: value, 'name': 'value', in a mapping, a query string or libpq's form.
    (
        re.compile(
            r"""((?:passw(?:or)?d|passphrase|secret|token|pepper|authorization|sessionid|api[_-]?key)\w{0,32}"""
            r"""["']?\s*[:=]\s*)(?:b?"[^"]*"|b?'[^']*'|(?!\*\*\*|(?:bearer|basic)\s)[^\s&;)\]}]+)""",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
    # The password of a URL, up to the last @: it may hold one itself.
    (re.compile(r"(://[^\s:/?#@]{0,256}:)\S{1,512}@"), r"\1***@"),
    # An API key (accounts/keys/key_format.py), also cut or percent-encoded; its public id is no secret.
    (
        re.compile(
            r"(psk(?:_|%5f)(?:live|test)(?:_|%5f)(?:[0-9a-z]{14}(?:_|%5f))?)[\w%.~-]*", re.IGNORECASE
        ),
        r"\1***",
    ),
)


def redact(text: str) -> str:
    """Return the text with passwords, tokens, cookies and keys replaced by `***`."""
    for rule, replacement in RULES:
        text = rule.sub(replacement, text)
    return text
