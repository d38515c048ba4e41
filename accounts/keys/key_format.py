"""The format of API keys. This module depends on neither models nor settings.

psk_live_0Zl4dF9kQ2mXa7_<32-character secret><6-character checksum>
|   |    |              known to the key's holder only
|   |    public ID: 8 characters for the account, 6 for the key
|   mode: live in production, test in staging
prefix for secret scanners
"""

import hmac
import re
import zlib
from dataclasses import dataclass

from django.core.signing import BASE62_ALPHABET, b62_encode
from django.utils.crypto import get_random_string

ACCOUNT_ID_LENGTH = 8
PUBLIC_ID_LENGTH = ACCOUNT_ID_LENGTH + 6
SECRET_LENGTH = 32  # 32 characters of base62 are 190.5 bits (D16).
CHECKSUM_LENGTH = 6  # 62^6 > 2^32.
PATTERN = (
    rf"psk_(live|test)_([0-9A-Za-z]{{{PUBLIC_ID_LENGTH}}})"
    rf"_([0-9A-Za-z]{{{SECRET_LENGTH}}})([0-9A-Za-z]{{{CHECKSUM_LENGTH}}})"
)
KEY_RE = re.compile(PATTERN, re.ASCII)


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """A key in plaintext. Must not be stored or logged."""

    text: str
    mode: str
    public_id: str

    @property
    def account_id(self) -> str:
        """The public ID of the account."""
        return self.public_id[:ACCOUNT_ID_LENGTH]

    def __repr__(self) -> str:
        return f"ParsedKey({self.public_id})"


def new_account_id() -> str:
    """Generate the public ID of an account. The public IDs of its keys start with it."""
    return get_random_string(ACCOUNT_ID_LENGTH, BASE62_ALPHABET)


def compute_checksum(text: str) -> str:
    """Return the CRC32 in base62, padded to 6 characters."""
    return b62_encode(zlib.crc32(text.encode())).rjust(CHECKSUM_LENGTH, "0")


def generate(mode: str, account_id: str) -> ParsedKey:
    """Generate a key for the account with this public ID."""
    public_id = account_id + get_random_string(PUBLIC_ID_LENGTH - ACCOUNT_ID_LENGTH, BASE62_ALPHABET)
    text = f"psk_{mode}_{public_id}_{get_random_string(SECRET_LENGTH, BASE62_ALPHABET)}"
    return ParsedKey(text + compute_checksum(text), mode, public_id)


def parse(text: str) -> ParsedKey | None:
    """Parse a key. Returns None if the format or the checksum is wrong."""
    match = KEY_RE.fullmatch(text)
    if match is None or compute_checksum(text[:-CHECKSUM_LENGTH]) != match[4]:
        return None
    return ParsedKey(text, match[1], match[2])


def compute_digest(key: ParsedKey, pepper: bytes) -> str:
    """Return the HMAC-SHA256 of the key in hexadecimal."""
    return hmac.new(pepper, key.text.encode(), "sha256").hexdigest()


def matches_digest(key: ParsedKey, pepper: bytes, digest: str) -> bool:
    """Compare the key with a stored digest, in constant time."""
    return hmac.compare_digest(compute_digest(key, pepper), digest)
