"""End an API key."""

from accounts.management.base import KeyVerbCommand
from accounts.models import ApiKey


class Command(KeyVerbCommand):
    help = "End a key at once and for good."
    examples = """
        manage.py revoke_key 0Zl4dF9kQ2mXa7 --reason "Found in a public repository"
        """
    verb, done = ApiKey.revoke, "revoked"
