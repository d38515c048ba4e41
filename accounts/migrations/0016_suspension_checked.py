"""What 0015 asks of accounts holds for those that were there, too."""

from django.db import migrations

from petstore.db.operations import ValidateConstraint


class Migration(migrations.Migration):
    dependencies = [("accounts", "0015_suspension")]
    operations = [ValidateConstraint("account", "account_suspended_with_a_reason")]
