"""Groups that see keys see incidents; those that issue keys write them; those that delete accounts delete them."""

from django.contrib.auth.management import create_permissions
from django.db import migrations

VERBS = {"view_apikey": ("view",), "add_apikey": ("add", "change"), "delete_account": ("delete",)}


def let_write_incidents(apps, schema_editor):
    config = apps.get_app_config("health")
    config.models_module = True  # Or else it is taken for an app without models.
    create_permissions(config, verbosity=0, apps=apps)
    config.models_module = None
    permissions = apps.get_model("auth", "Permission").objects
    for codename, verbs in VERBS.items():
        granted = permissions.filter(
            content_type__app_label="health", codename__in=[f"{verb}_incident" for verb in verbs]
        )
        for group in apps.get_model("auth", "Group").objects.filter(
            permissions__content_type__app_label="accounts", permissions__codename=codename
        ):
            group.permissions.add(*granted)


class Migration(migrations.Migration):

    dependencies = [
        ("health", "0001_status"),
        ("backoffice", "0003_groups"),
    ]

    operations = [migrations.RunPython(let_write_incidents, migrations.RunPython.noop)]
