"""Reword help texts. Nothing changes in the database."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0023_refusals_in_a_window'),
    ]

    operations = [
        migrations.AlterField(
            model_name='account',
            name='contact_email',
            field=models.EmailField(blank=True, db_default='', default='', help_text='Where to reach the customer. Not available through the API.', max_length=254),
        ),
        migrations.AlterField(
            model_name='account',
            name='notes',
            field=models.TextField(blank=True, db_default='', default='', help_text='Visible to staff only.', max_length=5000),
        ),
        migrations.AlterField(
            model_name='account',
            name='per_day',
            field=models.BigIntegerField(blank=True, help_text='Enterprise only: the limit agreed with this customer.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000000000)], verbose_name='requests per day'),
        ),
        migrations.AlterField(
            model_name='account',
            name='per_minute',
            field=models.BigIntegerField(blank=True, help_text='Enterprise only: the limit agreed with this customer.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000000000)], verbose_name='requests per minute'),
        ),
        migrations.AlterField(
            model_name='accountdayload',
            name='minutes',
            field=models.JSONField(default=dict, help_text='{"requests in a minute": number of such minutes}, without idle minutes.'),
        ),
        migrations.AlterField(
            model_name='dailyusage',
            name='refusals',
            field=models.BigIntegerField(default=0, help_text='Requests rejected with 429.'),
        ),
        migrations.AlterField(
            model_name='dailyusage',
            name='requests',
            field=models.BigIntegerField(default=0, help_text='Admitted requests.'),
        ),
        migrations.AlterField(
            model_name='deprecateduse',
            name='operation',
            field=models.CharField(help_text='The operation ID in the OpenAPI document.', max_length=50),
        ),
        migrations.AlterField(
            model_name='deprecateduse',
            name='requests',
            field=models.BigIntegerField(help_text='Admitted requests.'),
        ),
        migrations.AlterField(
            model_name='event',
            name='account_id',
            field=models.BigIntegerField(help_text='The account that can read it, or 0 for a public event.'),
        ),
        migrations.AlterField(
            model_name='event',
            name='numbered_at',
            field=models.BigIntegerField(help_text='Never decreases from one ID to the next.'),
        ),
        migrations.AlterField(
            model_name='eventdraft',
            name='account_id',
            field=models.BigIntegerField(help_text='The account that can read it, or 0 for a public event.'),
        ),
        migrations.AlterField(
            model_name='feed',
            name='cleared_at',
            field=models.BigIntegerField(default=0, help_text='When the newest pruned event was sequenced.'),
        ),
        migrations.AlterField(
            model_name='feed',
            name='cleared_id',
            field=models.BigIntegerField(default=0, help_text='Events up to this ID have been pruned.'),
        ),
        migrations.AlterField(
            model_name='feed',
            name='last_id',
            field=models.BigIntegerField(default=0, help_text='ID of the newest event.'),
        ),
        migrations.AlterField(
            model_name='feed',
            name='numbered_at',
            field=models.BigIntegerField(default=0, help_text='When the newest event was sequenced.'),
        ),
        migrations.AlterField(
            model_name='feed',
            name='swept_at',
            field=models.BigIntegerField(default=0, help_text='When missed warnings were last checked for.'),
        ),
        migrations.AlterField(
            model_name='idempotencyrecord',
            name='fingerprint',
            field=models.CharField(help_text='The digest of method, path and body.', max_length=64),
        ),
        migrations.AlterField(
            model_name='keystanding',
            name='ban_level',
            field=models.BigIntegerField(default=0, help_text='Determines the length of the next ban.'),
        ),
        migrations.AlterField(
            model_name='keystanding',
            name='lifts',
            field=models.BigIntegerField(db_default=0, default=0, help_text='Bans lifted by staff; each invalidates the state in Redis.'),
        ),
        migrations.AlterField(
            model_name='keystanding',
            name='looks',
            field=models.BigIntegerField(db_default=0, default=0, help_text='Requests for /account in a minute (D39).'),
        ),
        migrations.AlterField(
            model_name='keystanding',
            name='refusing_until',
            field=models.BigIntegerField(db_default=0, default=0, help_text='End of the latest window with a rejection. The next four refer to it.'),
        ),
        migrations.AlterField(
            model_name='keystanding',
            name='strikes_end',
            field=models.BigIntegerField(default=0, help_text='When the strikes expire.'),
        ),
        migrations.AlterField(
            model_name='keystanding',
            name='told_until',
            field=models.BigIntegerField(default=0, help_text='End of the latest Retry-After.'),
        ),
        migrations.AlterField(
            model_name='minuteload',
            name='minute',
            field=models.BigIntegerField(help_text='Minutes since the epoch.'),
        ),
        migrations.AlterField(
            model_name='minuteload',
            name='requests',
            field=models.BigIntegerField(help_text='Requests that were admitted, or rejected by the quota.'),
        ),
        migrations.AlterField(
            model_name='minuteload',
            name='written_at',
            field=models.BigIntegerField(help_text='The latest write, in microseconds since the epoch.'),
        ),
        migrations.AlterField(
            model_name='publication',
            name='told',
            field=models.BigIntegerField(help_text='The version published to Redis.'),
        ),
        migrations.AlterField(
            model_name='quotacounter',
            name='admitted',
            field=models.BooleanField(help_text='Whether the latest request was admitted.'),
        ),
        migrations.AlterField(
            model_name='quotacounter',
            name='day_here',
            field=models.BigIntegerField(db_default=0, default=0, help_text='The part of day_used that Redis did not count.'),
        ),
        migrations.AlterField(
            model_name='refusal',
            name='address',
            field=models.GenericIPAddressField(help_text="The client's address.", null=True),
        ),
        migrations.AlterField(
            model_name='refusal',
            name='scope',
            field=models.CharField(db_default='', default='', help_text='The missing scope.', max_length=20),
        ),
        migrations.AlterField(
            model_name='warned',
            name='of_window',
            field=models.BigIntegerField(help_text="The day, the key's expiry, or the start of the ban."),
        ),
        migrations.AlterField(
            model_name='warned',
            name='threshold',
            field=models.SmallIntegerField(help_text='A percentage, or days before expiry; 0 for a ban.'),
        ),
    ]
