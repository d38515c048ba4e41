"""Removes secrets from text that will be logged."""

import re

# Repetitions are bounded where matching would otherwise be quadratic.
RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # Cookies to the end of the line, and credentials.
    (re.compile(r"""(\b(?:set-)?cookie["']?\s*[:=]\s*)[^\r\n]+""", re.IGNORECASE), r"\1***"),
    (re.compile(r"(\b(?:bearer|basic)\s+)[\w.~+/=%-]+", re.IGNORECASE), r"\1***"),
    # name=value, name: value and 'name': 'value', as in mappings, query strings and connection strings.
    (
        re.compile(
            r"""((?:passw(?:or)?d|passphrase|secret|token|pepper|authorization|sessionid|api[_-]?key)\w{0,32}"""
            r"""["']?\s*[:=]\s*)(?:b?"[^"]*"|b?'[^']*'|(?!\*\*\*|(?:bearer|basic)\s)[^\s&;)\]}]+)""",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
    # The tokens of invitations, password links and confirmations, in paths.
    (re.compile(r"(/account/[\w/-]{0,64}/)[\w:.=-]{25,}"), r"\1***"),
    # Row values in PostgreSQL's error messages, such as email addresses.
    (re.compile(r"((?:Key \([^()\n]{1,256}\)=|Failing row contains )\()[^\r\n]+"), r"\1***"),
    # The password of a URL, up to the last @, since it may contain one.
    (re.compile(r"(://[^\s:/?#@]{0,256}:)\S{1,512}@"), r"\1***@"),
    # An API key (accounts/keys/key_format.py), even if truncated or percent-encoded. The public ID stays.
    (
        re.compile(
            r"(psk(?:_|%5f)(?:live|test)(?:_|%5f)(?:[0-9a-z]{14}(?:_|%5f))?)[\w%.~-]*", re.IGNORECASE
        ),
        r"\1***",
    ),
)

# A key whose secret is complete, perhaps without its checksum or with text beside it.
COMPLETE_KEY = re.compile(r"psk_(?:live|test)_[0-9a-z]{14}_[0-9a-z]{32}", re.IGNORECASE)


def contains_key(text: str) -> bool:
    """Whether text from a client contains an API key, so that it must not be stored."""
    return COMPLETE_KEY.search(text) is not None


def redact(text: str) -> str:
    for rule, replacement in RULES:
        text = rule.sub(replacement, text)
    return text
