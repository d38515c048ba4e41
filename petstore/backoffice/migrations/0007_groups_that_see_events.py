"""Groups that see accounts, keys, orders and pets see the events about them: they show nothing else."""

from django.contrib.auth.management import create_permissions
from django.db import migrations

SEEN_ALREADY = ("view_account", "view_apikey", "view_order", "view_pet")


def let_see_events(apps, schema_editor):
    config = apps.get_app_config("accounts")
    config.models_module = True  # Or else it is taken for an app without models.
    create_permissions(config, verbosity=0, apps=apps)
    config.models_module = None
    groups = apps.get_model("auth", "Group").objects.all()
    for codename in SEEN_ALREADY:
        groups = groups.filter(permissions__codename=codename)
    event = apps.get_model("auth", "Permission").objects.get(
        content_type__app_label="accounts", codename="view_event"
    )
    for group in groups:
        group.permissions.add(event)


class Migration(migrations.Migration):

    dependencies = [
        ("backoffice", "0006_entries_about_accounts"),
        ("accounts", "0011_events"),
    ]

    operations = [migrations.RunPython(let_see_events, migrations.RunPython.noop)]
