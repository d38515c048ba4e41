"""Pages call entries what the navigation calls them; nothing changes in the database."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0007_groups_that_see_events")]

    operations = [
        migrations.AlterModelOptions(
            name="auditentry",
            options={
                "default_permissions": ("view",),
                "ordering": ["-id"],
                "verbose_name": "audit trail entry",
                "verbose_name_plural": "audit trail entries",
            },
        ),
    ]
