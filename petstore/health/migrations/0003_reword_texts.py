"""Reword help texts. Nothing changes in the database."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('health', '0002_groups'),
    ]

    operations = [
        migrations.AlterField(
            model_name='incident',
            name='ends_at',
            field=models.DateTimeField(blank=True, help_text='In UTC. Leave empty until it ends.', null=True, verbose_name='to'),
        ),
        migrations.AlterField(
            model_name='incident',
            name='starts_at',
            field=models.DateTimeField(help_text='In UTC. The incident is shown from this time on.', verbose_name='from'),
        ),
        migrations.AlterField(
            model_name='incident',
            name='text',
            field=models.TextField(help_text='Plain text, visible to the public.', max_length=5000),
        ),
    ]
