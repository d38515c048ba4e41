"""Reword help texts. Nothing changes in the database."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0014_scheduled_orders'),
    ]

    operations = [
        migrations.AlterField(
            model_name='stockcount',
            name='due_at',
            field=models.DateTimeField(help_text='When the next count may begin. A worker moves it first.'),
        ),
        migrations.AlterField(
            model_name='stockcount',
            name='orders_approved',
            field=models.BigIntegerField(default=0, help_text='Including scheduled and shipped orders.'),
        ),
    ]
