"""Accounts have a contact and notes, and can be suspended: see D45. The next one checks the rows that are there."""

from django.db import migrations, models
from django.db.models import Q

from petstore.db.operations import AddConstraintNotValid


class Migration(migrations.Migration):
    dependencies = [("accounts", "0014_keys_by_their_end")]
    operations = [
        migrations.AddField(
            "account",
            "contact_email",
            models.EmailField(
                blank=True,
                db_default="",
                default="",
                help_text="Whom to write to; the customer's keys never show it.",
                max_length=254,
            ),
        ),
        migrations.AddField(
            "account",
            "notes",
            models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="For staff; the customer never sees them.",
                max_length=5000,
            ),
        ),
        migrations.AddField(
            "account", "suspended_at", models.DateTimeField(blank=True, editable=False, null=True)
        ),
        migrations.AddField(
            "account",
            "suspended_reason",
            models.CharField(blank=True, db_default="", default="", editable=False, max_length=255),
        ),
        AddConstraintNotValid(
            "account",
            models.CheckConstraint(
                condition=Q(suspended_at__isnull=True, suspended_reason="")
                | (Q(suspended_at__isnull=False) & ~Q(suspended_reason="")),
                name="account_suspended_with_a_reason",
            ),
        ),
    ]
