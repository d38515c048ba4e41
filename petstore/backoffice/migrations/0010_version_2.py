"""Keep former staff on the pages of staff, and index the audit trail by object and model.

Pages of staff list only users with `is_staff`, which version 1.1.0 cleared together with `is_active`. Objects of
different models can share an ID, so an index without the model read each other's entries.
"""

from typing import Any

from django.conf import settings
from django.db import migrations, models

from petstore.db.keysets import TwoFilterKey

TRIGGER = """CREATE TRIGGER audit_rejects_{verb} BEFORE {verb} ON backoffice_auditentry
    BEGIN SELECT RAISE(ABORT, 'The audit trail is append-only.'); END"""


def mark_former_staff(apps: Any, schema_editor: Any) -> None:
    apps.get_model("auth", "User").objects.filter(is_active=False, is_staff=False).update(is_staff=True)


def rename_triggers(apps: Any, schema_editor: Any) -> None:
    """The triggers on PostgreSQL have standard names."""
    if schema_editor.connection.vendor == "sqlite":
        for verb in ("update", "delete"):
            schema_editor.execute(f"DROP TRIGGER audit_refuses_{verb}")
            schema_editor.execute(TRIGGER.format(verb=verb))


class Migration(migrations.Migration):
    replaces = [
        ("backoffice", "0010_former_staff_stay_staff"),
        ("backoffice", "0011_standard_names"),
        ("backoffice", "0012_audit_by_object_and_model"),
    ]
    dependencies = [
        ("backoffice", "0001_squashed_0009_failed_sign_ins"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.RunPython(mark_former_staff),
        migrations.RunPython(rename_triggers),
        migrations.RemoveIndex("auditentry", "audit_by_object"),
        migrations.AddIndex(
            "auditentry", models.Index("object_id", "model", TwoFilterKey("id"), name="audit_by_object_and_model")
        ),
    ]
