from django.core.validators import MaxValueValidator
from django.db import migrations, models
from django.utils.timezone import localdate


class Migration(migrations.Migration):
    dependencies = [("inventory", "0013_remove_pet_by_name")]
    operations = [
        migrations.AddField(
            "pet",
            "birth_date",
            models.DateField(blank=True, null=True, validators=[MaxValueValidator(localdate)]),
        ),
    ]
