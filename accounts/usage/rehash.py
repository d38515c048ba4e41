"""Moves keys from an older pepper to the one that signs now, when they are used: only then they are known.

So an old pepper can leave API_KEY_PEPPERS when `list_peppers` says that no key hangs on it.
"""

from django.conf import settings

from accounts import key_text
from accounts.key_text import KeyText
from accounts.models import ApiKey, signing_pepper

MOST = 500  # Keys in one write; the others come with their next use.

Digests = dict[int, tuple[int, str]]  # By key id: the pepper's number, and the digest with it.


def note(digests: Digests, key: KeyText, key_id: int) -> None:
    if key_id not in digests and len(digests) < MOST:
        number = signing_pepper()
        digests[key_id] = number, key_text.digest(key, settings.API_KEY_PEPPERS[number])


def write(digests: Digests) -> None:
    """Store the digests, inside a transaction. A key that is further already stays there."""
    if not digests:
        return
    for key in ApiKey.objects.select_for_update().filter(pk__in=digests).order_by("pk"):
        number, digest = digests[key.pk]
        if key.pepper_number < number:
            key.pepper_number, key.digest = number, digest
            key.save(update_fields=["pepper_number", "digest"])  # Which tells Redis: see publishing.py.
