"""Used keys are rehashed with the signing pepper, and operators see which pepper they may remove."""

import json
from typing import Any

from accounts.keys import key_format
from accounts.keys.identity import KeyRejectionReason
from accounts.models import ApiKey
from accounts.quota import store
from accounts.usage import write_behind
from tests.conftest import OPERATOR, Issue
from tests.support.commands import run
from tests.support.customers import expire
from tests.support.quota import ADDRESS, find_rejection, parse, replace_secret

BOTH = {1: b"an older pepper", 2: b"a newer pepper"}


def old_key(issue: Issue, settings: Any) -> tuple[ApiKey, str]:
    """Issue a key with pepper 1, then add pepper 2, which becomes the signing pepper."""
    settings.API_KEY_PEPPERS = {1: BOTH[1]}
    key_and_text = issue()
    settings.API_KEY_PEPPERS = BOTH
    return key_and_text


def use(text: str) -> KeyRejectionReason | None:
    """Send one request with the key, and write its usage."""
    rejection = find_rejection(store.admit, parse(text), ADDRESS)
    write_behind.recorder.write()
    return rejection


def test_key_used_with_its_secret_is_rehashed_with_the_signing_pepper(issue: Issue, settings: Any) -> None:
    key, text = old_key(issue, settings)
    assert use(replace_secret(text)) is KeyRejectionReason.UNKNOWN
    key.refresh_from_db()
    assert key.pepper_number == 1
    assert use(text) is None
    key.refresh_from_db()
    assert (key.pepper_number, key.digest) == (2, key_format.compute_digest(parse(text), BOTH[2]))
    settings.API_KEY_PEPPERS = {2: BOTH[2]}
    assert use(text) is None
    assert "Pepper 2: 1 key" in list_peppers()


def test_older_pepper_signs_during_a_roll_out_but_rehashes_no_key(issue: Issue, settings: Any) -> None:
    settings.API_KEY_PEPPERS = BOTH
    newer, newer_text = issue()
    settings.API_KEY_PEPPER_NUMBER = 1
    assert use(newer_text) is None
    newer.refresh_from_db()
    older, older_text = issue()
    assert (newer.pepper_number, older.pepper_number) == (2, 1)
    settings.API_KEY_PEPPERS = {1: BOTH[1]}  # An instance without the newer pepper.
    assert use(older_text) is None


def test_write_rehashes_a_bounded_number_of_keys(issue: Issue, settings: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(write_behind, "MAX_REHASHES", 2)
    key_texts = [old_key(issue, settings)[1] for _ in range(3)]
    for left in (1, 0):
        for text in key_texts:
            store.admit(parse(text), ADDRESS)
        write_behind.recorder.write()
        assert ApiKey.objects.filter(pepper_number=1).count() == left


def list_peppers(*options: str) -> str:
    return run("list_peppers", *options)


def test_list_of_peppers_counts_the_keys_that_can_still_be_used(issue: Issue, settings: Any) -> None:
    old_key(issue, settings)[0].revoke(reason="Lost", by=OPERATOR)
    expire(old_key(issue, settings)[0])
    old_key(issue, settings)
    issue()
    old_pepper, new_pepper = json.loads(list_peppers("--json"))
    assert old_pepper == {
        "number": 1, "known": True, "signs": False, "keys": 1, "webhooks": 0, "last_used_at": None,
    }  # fmt: skip
    assert (new_pepper["number"], new_pepper["signs"], new_pepper["keys"]) == (2, True, 1)
    assert "Pepper 1: 1 key, 0 webhooks. Keep it" in list_peppers()
    ApiKey.objects.filter(pepper_number=1).update(pepper_number=2)
    assert "Pepper 1: 0 keys, 0 webhooks. It may be removed" in list_peppers()


def test_list_of_peppers_fails_if_keys_need_a_removed_pepper(issue: Issue, settings: Any) -> None:
    old_key(issue, settings)
    settings.API_KEY_PEPPERS = {2: BOTH[2]}
    run("list_peppers", status=1)
