"""The groups of staff, and what each may do. A group of the same name that is there already stays as it is."""

from django.contrib.auth.management import create_permissions
from django.db import migrations

WRITES = ("add", "change", "delete")

SHOP = ("category", "pet", "petevent", "order", "orderevent")
CUSTOMERS = (
    "plan", "account", "apikey", "keyevent", "dailyusage", "keystanding", "quotacounter", "refusal",
    "deprecateduse", "accountdayload",
)

VIEW_SHOP = {f"inventory.view_{model}" for model in SHOP}
VIEW_ALL = VIEW_SHOP | {f"accounts.view_{model}" for model in CUSTOMERS}
STOCK = {f"inventory.{verb}_{model}" for verb in WRITES for model in ("category", "pet")} | {
    "inventory.change_order"
}
SUPPORT = {
    "accounts.add_account", "accounts.change_account", "accounts.add_apikey", "accounts.change_apikey",
}
STAFF = {f"auth.{verb}_{model}" for verb in ("view", *WRITES) for model in ("user", "group")}

GROUPS = {
    "Viewer": VIEW_ALL,
    "Support": VIEW_ALL | SUPPORT,
    "Stock": VIEW_SHOP | STOCK,
    "Owner": VIEW_ALL | SUPPORT | STOCK | STAFF | {
        "accounts.change_plan", "accounts.delete_account", "backoffice.view_auditentry",
    },
}


def make_permissions(apps):
    """Make the rows that Django makes only after all migrations."""
    for label in ("auth", "accounts", "inventory", "backoffice"):
        config = apps.get_app_config(label)
        config.models_module = True  # Or else it is taken for an app without models.
        create_permissions(config, verbosity=0, apps=apps)
        config.models_module = None


def make_groups(apps, schema_editor):
    make_permissions(apps)
    Group = apps.get_model("auth", "Group")
    Permission = apps.get_model("auth", "Permission")
    known = {
        f"{app}.{codename}": pk
        for app, codename, pk in Permission.objects.values_list("content_type__app_label", "codename", "pk")
    }
    for name, wanted in GROUPS.items():
        group, new = Group.objects.get_or_create(name=name)
        if new:
            group.permissions.set(known[permission] for permission in sorted(wanted))


class Migration(migrations.Migration):

    dependencies = [
        ("backoffice", "0002_audit_is_append_only"),
        ("accounts", "0006_records_for_staff"),
        ("inventory", "0005_histories_stay"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
