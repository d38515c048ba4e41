from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inventory", "0013_remove_pet_by_name")]
    operations = [
        migrations.AddField(
            "order", "note", models.CharField(blank=True, default="", db_default="", max_length=200)
        ),
    ]
