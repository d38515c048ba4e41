"""Lift a ban."""

from accounts.management.base import KeyVerbCommand
from accounts.models import ApiKey


class Command(KeyVerbCommand):
    help = "Lift the ban of a key that kept sending after 429."
    examples = """
        manage.py unban_key 0Zl4dF9kQ2mXa7 --reason "They fixed their retries"
        """
    verb, done = ApiKey.unban, "free again"
