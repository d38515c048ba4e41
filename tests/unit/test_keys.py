"""The text of an API key (D16): format, entropy, checksum and display."""

import hashlib
import hmac
import re
from string import ascii_letters, digits

import pytest

from accounts.keys import key_format

ACCOUNT_ID = "0Zl4dF9k"
PEPPER = b"a pepper"


@pytest.fixture
def key() -> key_format.ParsedKey:
    return key_format.generate("live", ACCOUNT_ID)


@pytest.mark.parametrize("mode", ["live", "test"])
def test_key_starts_with_mode_and_public_id(mode: str) -> None:
    key = key_format.generate(mode, ACCOUNT_ID)
    assert re.fullmatch(rf"psk_{mode}_{ACCOUNT_ID}[0-9A-Za-z]{{6}}_[0-9A-Za-z]{{38}}", key.text)
    assert (key.mode, key.public_id) == (mode, key.text.split("_")[2])
    assert key_format.parse(key.text) == key


def test_keys_of_an_account_have_unique_ids_and_secrets() -> None:
    split_keys = [key_format.generate("live", ACCOUNT_ID).text.split("_") for _ in range(500)]
    assert len({parts[2] for parts in split_keys}) == len({parts[3] for parts in split_keys}) == 500
    assert {letter for parts in split_keys for letter in parts[3][:32]} == set(ascii_letters + digits)


def test_checksum_is_crc32_in_six_characters_of_base62() -> None:
    assert key_format.compute_checksum("") == "000000"  # CRC32 of nothing is 0.
    # 0xCBF43926, the check value of CRC-32/ISO-HDLC.
    assert key_format.compute_checksum("123456789") == "3jZRME"


def test_checksum_detects_one_wrong_character(key: key_format.ParsedKey) -> None:
    for index, letter in enumerate(key.text):
        mistyped = key.text[:index] + ("x" if letter != "x" else "y") + key.text[index + 1 :]
        assert key_format.parse(mistyped) is None, index


def with_checksum(text: str) -> str:
    return text + key_format.compute_checksum(text)


ID, SECRET = "a" * 14, "b" * 32
RIGHT_FORM = with_checksum(f"psk_live_{ID}_{SECRET}")
WRONG_FORMS = [  # Each but the first two has one mistake.
    "", "psk_live_", f" {RIGHT_FORM}", f"{RIGHT_FORM}\n",
    *map(with_checksum, (
        f"pk_live_{ID}_{SECRET}", f"psk_prod_{ID}_{SECRET}", f"psk_LIVE_{ID}_{SECRET}",
        f"psk_live_{ID[1:]}_{SECRET}", f"psk_live_{ID}a_{SECRET}",
        f"psk_live_{ID}_{SECRET[1:]}", f"psk_live_{ID}_{SECRET}b",
        f"psk_live_{ID}_{SECRET[1:]}-", f"psk_live_{ID}_{SECRET[1:]}٣", f"psk_live_{ID}_{SECRET[1:]}\0",
    )),
]  # fmt: skip


def test_malformed_key_is_rejected_despite_a_valid_checksum() -> None:
    assert key_format.parse(RIGHT_FORM) is not None
    assert [text for text in WRONG_FORMS if key_format.parse(text) is not None] == []


def test_digest_is_hmac_sha256_and_matches_only_its_own_key_and_pepper(key: key_format.ParsedKey) -> None:
    digest = key_format.compute_digest(key, PEPPER)
    assert digest == hmac.new(PEPPER, key.text.encode(), hashlib.sha256).hexdigest()
    assert key_format.matches_digest(key, PEPPER, digest)
    assert not key_format.matches_digest(key, b"another pepper", digest)
    assert not key_format.matches_digest(key_format.generate("live", ACCOUNT_ID), PEPPER, digest)


def test_displayed_key_hides_its_secret(key: key_format.ParsedKey) -> None:
    assert repr(key) == str(key) == f"ParsedKey({key.public_id})"
