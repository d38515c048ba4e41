"""The schema of version 1.1.0, the triggers that keep the audit trail append-only, and the groups of staff."""

from typing import Any

import django.utils.timezone
from django.contrib.auth.management import create_permissions
from django.db import migrations, models

TABLE = "backoffice_auditentry"
MESSAGE = "The audit trail is append-only."
POSTGRESQL = f"""
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '{MESSAGE}' USING ERRCODE = 'integrity_constraint_violation';
END
$$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON {TABLE}
    FOR EACH ROW EXECUTE FUNCTION audit_is_append_only();
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON {TABLE}
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();
"""
SQLITE = """CREATE TRIGGER audit_refuses_{verb} BEFORE {verb} ON {table}
    BEGIN SELECT RAISE(ABORT, '{message}'); END"""

WRITES = ("add", "change", "delete")
SHOP = ("category", "pet", "petevent", "order", "orderevent")
CUSTOMERS = (
    "plan", "account", "apikey", "dailyusage", "keystanding", "quotacounter", "refusal", "deprecateduse",
    "accountdayload", "event",
)  # fmt: skip
VIEW_SHOP = {f"inventory.view_{model}" for model in SHOP}
VIEW_CUSTOMERS = VIEW_SHOP | {f"accounts.view_{model}" for model in CUSTOMERS}
STOCK = {f"inventory.{verb}_{model}" for verb in WRITES for model in ("category", "pet")} | {
    "inventory.change_order"
}
SUPPORT = {f"accounts.{verb}_{model}" for verb in ("add", "change") for model in ("account", "apikey")}
STAFF = {f"auth.{verb}_{model}" for verb in ("view", *WRITES) for model in ("user", "group")}
GROUPS = {
    "Viewer": VIEW_CUSTOMERS,
    "Support": VIEW_CUSTOMERS | SUPPORT,
    "Stock": VIEW_SHOP | STOCK,
    "Owner": VIEW_CUSTOMERS
    | SUPPORT
    | STOCK
    | STAFF
    | {"accounts.change_plan", "accounts.delete_account", "backoffice.view_auditentry"},
}


def add_triggers(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(POSTGRESQL)
    else:
        for verb in ("update", "delete"):
            schema_editor.execute(SQLITE.format(verb=verb, table=TABLE, message=MESSAGE))


def create_groups(apps: Any, schema_editor: Any) -> None:
    """Create the permissions first, as Django does only after all migrations."""
    for label in ("auth", "accounts", "inventory", "backoffice"):
        config = apps.get_app_config(label)
        config.models_module = True  # Otherwise, it counts as an app without models.
        create_permissions(config, verbosity=0, apps=apps)
        config.models_module = None
    permissions = apps.get_model("auth", "Permission").objects
    ids = {
        f"{app}.{codename}": pk
        for app, codename, pk in permissions.values_list("content_type__app_label", "codename", "pk")
    }
    for name, granted in GROUPS.items():
        group = apps.get_model("auth", "Group").objects.create(name=name)
        group.permissions.set(ids[permission] for permission in sorted(granted))


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("backoffice", "0001_audit"),
        ("backoffice", "0002_audit_is_append_only"),
        ("backoffice", "0003_groups"),
        ("backoffice", "0004_audit_is_not_emptied"),
        ("backoffice", "0005_entries_about_keys"),
        ("backoffice", "0006_entries_about_accounts"),
        ("backoffice", "0007_groups_that_see_events"),
        ("backoffice", "0008_name_of_the_trail"),
        ("backoffice", "0009_failed_sign_ins"),
    ]
    dependencies = [
        ("accounts", "0001_squashed_0025_rename_fields"),
        ("inventory", "0001_squashed_0013_remove_pet_by_name"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('actor_id', models.BigIntegerField(help_text='The id of the member of staff, where known.', null=True)),
                ('actor_name', models.CharField(blank=True, max_length=150, verbose_name='by')),
                ('action', models.CharField(max_length=20)),
                ('model', models.CharField(blank=True, max_length=100)),
                ('object_id', models.CharField(blank=True, max_length=255, verbose_name="object's id")),
                ('object_text', models.CharField(blank=True, max_length=255, verbose_name='object')),
                ('before', models.JSONField(default=dict, help_text='Of the fields that changed.', verbose_name='old values')),
                ('after', models.JSONField(default=dict, help_text='Of the fields that changed.', verbose_name='new values')),
                ('reason', models.CharField(blank=True, max_length=500)),
                ('address', models.GenericIPAddressField(verbose_name='from address')),
                ('request_id', models.CharField(blank=True, max_length=128)),
            ],
            options={
                'verbose_name': 'audit trail entry',
                'verbose_name_plural': 'audit trail entries',
                'ordering': ['-id'],
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['actor_id', '-id'], name='audit_by_staff'), models.Index(fields=['action', '-id'], name='audit_by_action'), models.Index(fields=['model', '-id'], name='audit_by_model'), models.Index(fields=['object_id', '-id'], name='audit_by_object'), models.Index(fields=['object_text', '-id'], name='audit_by_object_text'), models.Index(fields=['request_id', '-id'], name='audit_by_request')],
            },
        ),
        migrations.CreateModel(
            name='FailedSignIn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('user_id', models.BigIntegerField(null=True)),
                ('username', models.CharField(blank=True, max_length=150, verbose_name='name')),
                ('reason', models.CharField(max_length=500)),
                ('address', models.GenericIPAddressField(verbose_name='from address')),
                ('request_id', models.CharField(blank=True, max_length=128)),
            ],
            options={
                'verbose_name': 'failed sign-in',
                'ordering': ['-id'],
                'default_permissions': (),
                'indexes': [models.Index(fields=['user_id', '-id'], name='failed_sign_in_by_user'), models.Index(fields=['username', '-id'], name='failed_sign_in_by_name'), models.Index(fields=['request_id', '-id'], name='failed_sign_in_by_request')],
            },
        ),
        migrations.RunPython(add_triggers, migrations.RunPython.noop),
        migrations.RunPython(create_groups, migrations.RunPython.noop),
    ]
