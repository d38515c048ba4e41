"""Refusals with 401 and 403 are kept, too: they have no windows, and say from where they came.

The next ones check the rows that are there, and change indexes beside the writes.
"""

from django.db import migrations, models

from petstore.db.operations import AddConstraintNotValid


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0017_private_events_by_type'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='refusal',
            name='refusal_rule_is_known',
        ),
        migrations.AddField(
            model_name='refusal',
            name='address',
            field=models.GenericIPAddressField(help_text="The client's.", null=True),
        ),
        migrations.AddField(
            model_name='refusal',
            name='scope',
            field=models.CharField(db_default='', default='', help_text='What the key lacked.', max_length=20),
        ),
        migrations.AlterField(
            model_name='refusal',
            name='day_ends_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name='refusal',
            name='day_limit',
            field=models.BigIntegerField(help_text='Requests.', null=True),
        ),
        migrations.AlterField(
            model_name='refusal',
            name='day_used',
            field=models.BigIntegerField(help_text='Requests.', null=True),
        ),
        migrations.AlterField(
            model_name='refusal',
            name='minute_ends_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name='refusal',
            name='minute_limit',
            field=models.BigIntegerField(help_text='Requests.', null=True),
        ),
        migrations.AlterField(
            model_name='refusal',
            name='minute_used',
            field=models.BigIntegerField(help_text='Requests.', null=True),
        ),
        migrations.AlterField(
            model_name='refusal',
            name='rule',
            field=models.CharField(choices=[('rate_limit_exceeded', 'Minute limit'), ('daily_quota_exceeded', 'Daily quota'), ('api_key_banned', 'Ban'), ('revoked', 'Revoked key'), ('expired', 'Expired key'), ('elsewhere', 'Address not allowed'), ('suspended', 'Suspended account'), ('insufficient_scope', 'Missing scope')], max_length=20),
        ),
        AddConstraintNotValid(
            model_name='refusal',
            constraint=models.CheckConstraint(condition=models.Q(('rule__in', ['rate_limit_exceeded', 'daily_quota_exceeded', 'api_key_banned', 'revoked', 'expired', 'elsewhere', 'suspended', 'insufficient_scope'])), name='refusal_for_a_known_rule'),
        ),
    ]
