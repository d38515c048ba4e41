"""The contract's four plans (D27)."""

from django.db import migrations

PLANS = [
    ("free", 60, 1_000),
    ("pro", 300, 10_000),
    ("business", 1_000, 100_000),
    ("enterprise", None, None),
]


def add_plans(apps, schema_editor):
    Plan = apps.get_model("accounts", "Plan")
    Plan.objects.bulk_create(
        Plan(code=code, per_minute=per_minute, per_day=per_day) for code, per_minute, per_day in PLANS
    )


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial")]
    operations = [migrations.RunPython(add_plans, migrations.RunPython.noop)]
