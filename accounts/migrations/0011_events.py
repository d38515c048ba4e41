"""Events, their drafts, and the feed, which begins empty."""

import accounts.models.events
import petstore.db.keysets
from django.db import migrations, models


def begin(apps, schema_editor):
    apps.get_model('accounts', 'Feed').objects.using(schema_editor.connection.alias).create(pk=1)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0010_looks_at_an_account'),
    ]

    operations = [
        migrations.CreateModel(
            name='Event',
            fields=[
                ('account_id', models.BigIntegerField(help_text='The account that sees it; 0: everybody does.')),
                ('type', models.CharField(max_length=30)),
                ('created_at', models.BigIntegerField(default=accounts.models.events.now_in_microseconds)),
                ('data', models.TextField(help_text='JSON.')),
                ('id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('numbered_at', models.BigIntegerField(help_text='Never falls from one id to the next.')),
            ],
        ),
        migrations.CreateModel(
            name='EventDraft',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('account_id', models.BigIntegerField(help_text='The account that sees it; 0: everybody does.')),
                ('type', models.CharField(max_length=30)),
                ('created_at', models.BigIntegerField(default=accounts.models.events.now_in_microseconds)),
                ('data', models.TextField(help_text='JSON.')),
            ],
        ),
        migrations.CreateModel(
            name='Feed',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('last_id', models.BigIntegerField(default=0, help_text='Of the newest event.')),
                ('numbered_at', models.BigIntegerField(default=0, help_text='When that one was numbered.')),
                ('cleared_id', models.BigIntegerField(default=0, help_text='Events up to this one are gone.')),
                ('swept_at', models.BigIntegerField(default=0, help_text='When warnings were last looked for.')),
                ('cleared_at', models.BigIntegerField(default=0, help_text='When the last that is gone was numbered.')),
            ],
        ),
        migrations.CreateModel(
            name='Warned',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('type', models.CharField(max_length=30)),
                ('subject_id', models.BigIntegerField()),
                ('threshold', models.SmallIntegerField(help_text='Per cent, or days before the end; 0 for a ban.')),
                ('of_window', models.BigIntegerField(help_text="The day, the key's end, or the beginning of the ban.")),
                ('at', models.DateTimeField(db_index=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('type', 'subject_id', 'threshold', 'of_window'), name='one_warning_for_each_window')],
            },
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(models.F('account_id'), petstore.db.keysets.OneFilterKey('id'), name='event_of_account'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(models.F('account_id'), models.F('type'), petstore.db.keysets.TwoFilterKey('id'), name='event_of_account_and_type'),
        ),
        migrations.AddConstraint(
            model_name='eventdraft',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('account_id', 0), ('type__startswith', 'pet')), models.Q(('account_id__gt', 0), models.Q(('type__startswith', 'pet'), _negated=True)), _connector='OR'), name='event_is_public_or_of_an_account'),
        ),
        migrations.AddConstraint(
            model_name='feed',
            constraint=models.CheckConstraint(condition=models.Q(('id', 1)), name='feed_is_one_row'),
        ),
        migrations.AddConstraint(
            model_name='feed',
            constraint=models.CheckConstraint(condition=models.Q(('cleared_id__lte', models.F('last_id'))), name='feed_keeps_what_is_new'),
        ),
        migrations.RunPython(begin, migrations.RunPython.noop, elidable=False),
    ]
