"""Count refusals and strikes for each refusing window (D26).

Workers of the previous version count by the columns that were there before; the defaults are for the rows that
they insert.
"""

from django.db import migrations, models

REFUSING_UNTIL = "End of the window that refused last; the next four count in it."


class Migration(migrations.Migration):
    dependencies = [("accounts", "0022_most_requests_of_a_limit")]
    operations = [
        migrations.AddField(
            "keystanding", name, models.BigIntegerField(default=0, db_default=0, help_text=help_text)
        )
        for name, help_text in (
            ("refusing_until", REFUSING_UNTIL),
            ("first_refusal_at", ""),
            ("last_strike_at", ""),
            ("window_refusals", ""),
            ("window_strikes", ""),
        )
    ]
