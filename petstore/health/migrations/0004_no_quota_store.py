"""Sample no quota store. Its column stays for workers of the previous version until the next release."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("health", "0003_reword_texts")]
    operations = [
        migrations.AlterField("statussample", "quota_store", models.CharField(db_default="up", max_length=8)),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField("statussample", "quota_store")]
        ),
    ]
