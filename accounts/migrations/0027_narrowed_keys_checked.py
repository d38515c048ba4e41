"""Checks existing rows against the constraint of 0026."""

from django.db import migrations

from petstore.db.operations import ValidateConstraint


class Migration(migrations.Migration):
    dependencies = [("accounts", "0026_narrowed_keys")]
    operations = [ValidateConstraint("apikey", "key_expires_by_its_latest_expiry")]
