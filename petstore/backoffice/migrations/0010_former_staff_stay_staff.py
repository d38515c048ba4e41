"""Staff who may no longer sign in stay on the pages of staff, which list only users with `is_staff`.

Earlier versions cleared `is_staff` together with `is_active`.
"""

from django.conf import settings
from django.db import migrations


def mark_former_staff(apps, schema_editor):
    apps.get_model("auth", "User").objects.filter(is_active=False, is_staff=False).update(is_staff=True)


class Migration(migrations.Migration):

    dependencies = [
        ("backoffice", "0009_failed_sign_ins"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [migrations.RunPython(mark_former_staff, migrations.RunPython.noop)]
