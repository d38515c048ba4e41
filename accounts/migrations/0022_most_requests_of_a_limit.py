"""Bound what forms take for a limit. Nothing changes in the database."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models

WITHIN = [MinValueValidator(1), MaxValueValidator(10**12)]
AGREED = "Enterprise only: the number agreed with this customer."


class Migration(migrations.Migration):
    dependencies = [("accounts", "0021_answers_by_key_alone")]
    operations = [
        migrations.AlterField(
            model,
            f"per_{window}",
            models.BigIntegerField(
                f"requests per {window}", null=True, blank=True, validators=WITHIN, help_text=help_text
            ),
        )
        for model, help_text in (("account", AGREED), ("plan", ""))
        for window in ("minute", "day")
    ]
