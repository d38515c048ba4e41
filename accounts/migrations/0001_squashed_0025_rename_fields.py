"""The schema of version 1.1.0, the plans of the contract (D27), and the empty feed of events."""

from typing import Any

import accounts.keys.key_format
import accounts.keys.networks
import accounts.models.api_keys
import accounts.models.events
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import petstore.db.keysets
from django.db import migrations, models

PLANS = [
    ("free", 60, 1_000),
    ("pro", 300, 10_000),
    ("business", 1_000, 100_000),
    ("enterprise", None, None),
]


def add_rows(apps: Any, schema_editor: Any) -> None:
    Plan = apps.get_model("accounts", "Plan")
    Plan.objects.bulk_create(
        Plan(code=code, per_minute=per_minute, per_day=per_day) for code, per_minute, per_day in PLANS
    )
    apps.get_model("accounts", "Feed").objects.create(pk=1)


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("accounts", "0001_initial"),
        ("accounts", "0002_plans"),
        ("accounts", "0003_standing_and_usage"),
        ("accounts", "0004_key_ends_within_100_years"),
        ("accounts", "0005_idempotency"),
        ("accounts", "0006_records_for_staff"),
        ("accounts", "0007_publications_and_shares_of_a_day"),
        ("accounts", "0008_key_events_hold_nothing_back"),
        ("accounts", "0009_key_events_in_the_audit_trail"),
        ("accounts", "0010_looks_at_an_account"),
        ("accounts", "0011_events"),
        ("accounts", "0012_scope_of_events"),
        ("accounts", "0013_keys_with_all_scopes"),
        ("accounts", "0014_keys_by_their_end"),
        ("accounts", "0015_suspension"),
        ("accounts", "0016_suspension_checked"),
        ("accounts", "0017_private_events_by_type"),
        ("accounts", "0018_refusals_of_keys"),
        ("accounts", "0019_refusals_by_key"),
        ("accounts", "0020_refusals_of_a_key"),
        ("accounts", "0021_answers_by_key_alone"),
        ("accounts", "0022_most_requests_of_a_limit"),
        ("accounts", "0023_refusals_in_a_window"),
        ("accounts", "0024_reword_help_texts"),
        ("accounts", "0025_rename_fields"),
    ]
    dependencies = []
    operations = [
        migrations.CreateModel(
            name='Plan',
            fields=[
                ('code', models.CharField(choices=[('free', 'Free'), ('pro', 'Pro'), ('business', 'Business'), ('enterprise', 'Enterprise')], max_length=20, primary_key=True, serialize=False)),
                ('per_minute', models.BigIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000000000)], verbose_name='requests per minute')),
                ('per_day', models.BigIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000000000)], verbose_name='requests per day')),
            ],
            options={
                'ordering': [models.OrderBy(models.F('per_day'), nulls_last=True)],
                'constraints': [models.CheckConstraint(condition=models.Q(('code__in', ['free', 'pro', 'business', 'enterprise'])), name='plan_is_known'), models.CheckConstraint(condition=models.Q(models.Q(models.Q(('code', 'enterprise'), _negated=True), ('per_day__gte', 1), ('per_day__isnull', False), ('per_minute__gte', 1), ('per_minute__isnull', False)), models.Q(('code', 'enterprise'), ('per_day__isnull', True), ('per_minute__isnull', True)), _connector='OR'), name='plan_has_numbers_unless_enterprise')],
            },
        ),
        migrations.CreateModel(
            name='Account',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.CharField(default=accounts.keys.key_format.new_account_id, editable=False, max_length=8, unique=True)),
                ('name', models.CharField(max_length=255, unique=True)),
                ('per_minute', models.BigIntegerField(blank=True, help_text='Enterprise only: the limit agreed with this customer.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000000000)], verbose_name='requests per minute')),
                ('per_day', models.BigIntegerField(blank=True, help_text='Enterprise only: the limit agreed with this customer.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000000000)], verbose_name='requests per day')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='accounts.plan')),
                ('contact_email', models.EmailField(blank=True, db_default='', default='', help_text='Where to reach the customer. Not available through the API.', max_length=254)),
                ('notes', models.TextField(blank=True, db_default='', default='', help_text='Visible to staff only.', max_length=5000)),
                ('suspended_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('suspended_reason', models.CharField(blank=True, db_default='', default='', editable=False, max_length=255)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='account_has_a_name'), models.CheckConstraint(condition=models.Q(models.Q(('plan', 'enterprise'), ('per_day__gte', 1), ('per_day__isnull', False), ('per_minute__gte', 1), ('per_minute__isnull', False)), models.Q(models.Q(('plan', 'enterprise'), _negated=True), ('per_day__isnull', True), ('per_minute__isnull', True)), _connector='OR'), name='account_has_numbers_if_enterprise'), models.CheckConstraint(condition=models.Q(models.Q(('suspended_at__isnull', True), ('suspended_reason', '')), models.Q(('suspended_at__isnull', False), models.Q(('suspended_reason', ''), _negated=True)), _connector='OR'), name='account_suspended_with_a_reason')],
            },
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.CharField(editable=False, max_length=14, unique=True)),
                ('mode', models.CharField(choices=[('live', 'Live'), ('test', 'Test')], editable=False, max_length=4)),
                ('name', models.CharField(blank=True, help_text='What the key is for.', max_length=255)),
                ('digest', models.CharField(editable=False, max_length=64)),
                ('pepper_number', models.PositiveSmallIntegerField(editable=False)),
                ('scopes', models.CharField(default='pets:read pets:write orders:read orders:write events:read', max_length=100)),
                ('allowed_networks', models.JSONField(blank=True, default=list, validators=[accounts.keys.networks.validate_networks])),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('expires_at', models.DateTimeField(blank=True, null=True, validators=[accounts.models.api_keys.validate_end])),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('revoked_reason', models.CharField(blank=True, editable=False, max_length=255)),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('account', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='keys', to='accounts.account')),
                ('rotated_from', models.OneToOneField(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='rotated_to', to='accounts.apikey')),
            ],
            options={
                'verbose_name': 'API key',
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('expires_at__isnull', False), ('revoked_at__isnull', True)), fields=['expires_at'], name='key_by_end')],
                'constraints': [models.CheckConstraint(condition=models.Q(('mode__in', ['live', 'test'])), name='key_has_a_mode'), models.CheckConstraint(condition=models.Q(('expires_at__isnull', True), ('expires_at__gt', models.F('created_at')), _connector='OR'), name='key_ends_after_it_began', violation_error_message='A key must end later than it begins.'), models.CheckConstraint(condition=models.Q(models.Q(('revoked_at__isnull', True), ('revoked_reason', '')), models.Q(('revoked_at__isnull', False), models.Q(('revoked_reason', ''), _negated=True)), _connector='OR'), name='key_revoked_with_a_reason'), models.CheckConstraint(condition=models.Q(('scopes__in', ('pets:read', 'pets:write', 'orders:read', 'orders:write', 'events:read', 'pets:read pets:write', 'pets:read orders:read', 'pets:read orders:write', 'pets:read events:read', 'pets:write orders:read', 'pets:write orders:write', 'pets:write events:read', 'orders:read orders:write', 'orders:read events:read', 'orders:write events:read', 'pets:read pets:write orders:read', 'pets:read pets:write orders:write', 'pets:read pets:write events:read', 'pets:read orders:read orders:write', 'pets:read orders:read events:read', 'pets:read orders:write events:read', 'pets:write orders:read orders:write', 'pets:write orders:read events:read', 'pets:write orders:write events:read', 'orders:read orders:write events:read', 'pets:read pets:write orders:read orders:write', 'pets:read pets:write orders:read events:read', 'pets:read pets:write orders:write events:read', 'pets:read orders:read orders:write events:read', 'pets:write orders:read orders:write events:read', 'pets:read pets:write orders:read orders:write events:read'))), name='key_scopes_are_known')],
            },
        ),
        migrations.CreateModel(
            name='DailyUsage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('admitted', models.BigIntegerField(db_column='requests', default=0, help_text='Admitted requests.')),
                ('rejected', models.BigIntegerField(db_column='refusals', default=0, help_text='Requests rejected with 429.')),
                ('key', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='usage', to='accounts.apikey')),
            ],
            options={
                'verbose_name_plural': 'daily usage',
                'indexes': [models.Index(fields=['day'], name='usage_by_day')],
                'constraints': [models.UniqueConstraint(fields=('key', 'day'), name='one_usage_for_each_key_and_day'), models.CheckConstraint(condition=models.Q(('admitted__gte', 0), ('rejected__gte', 0)), name='usage_counts_from_zero')],
            },
        ),
        migrations.CreateModel(
            name='KeyStanding',
            fields=[
                ('key', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='rate_limit_state', serialize=False, to='accounts.apikey')),
                ('retry_after_until', models.BigIntegerField(db_column='told_until', default=0, help_text='End of the latest Retry-After.')),
                ('strikes', models.BigIntegerField(default=0)),
                ('strikes_expire_at', models.BigIntegerField(db_column='strikes_end', default=0, help_text='When the strikes expire.')),
                ('banned_at', models.BigIntegerField(default=0)),
                ('banned_until', models.BigIntegerField(db_index=True, default=0)),
                ('ban_level', models.BigIntegerField(default=0, help_text='The level of the next ban, unless time without a ban lowers it.')),
                ('unban_count', models.BigIntegerField(db_column='lifts', db_default=0, default=0, help_text='Bans lifted by staff. An increment invalidates the state in Redis.')),
                ('peeks', models.BigIntegerField(db_column='looks', db_default=0, default=0, help_text='GET /v1/account requests in the current minute (D39).')),
                ('peeks_reset_at', models.BigIntegerField(db_column='looks_end', db_default=0, default=0, help_text='When the minute of the peeks ends.')),
                ('rejecting_until', models.BigIntegerField(db_column='refusing_until', db_default=0, default=0, help_text='End of the window that rejected last, which identifies the strike window.')),
                ('first_rejection_at', models.BigIntegerField(db_column='first_refusal_at', db_default=0, default=0)),
                ('last_strike_at', models.BigIntegerField(db_default=0, default=0)),
                ('window_rejections', models.BigIntegerField(db_column='window_refusals', db_default=0, default=0)),
                ('window_strikes', models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('ban_level__gte', 0), ('strikes__gte', 0)), name='standing_counts_from_zero'), models.CheckConstraint(condition=models.Q(('banned_until__gte', models.F('banned_at'))), name='ban_ends_after_it_began')],
            },
        ),
        migrations.CreateModel(
            name='QuotaCounter',
            fields=[
                ('account', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='quota', serialize=False, to='accounts.account')),
                ('minute_ends_at', models.BigIntegerField(db_column='minute_ends')),
                ('minute_used', models.BigIntegerField()),
                ('day', models.BigIntegerField()),
                ('day_used', models.BigIntegerField()),
                ('last_request_at', models.BigIntegerField(db_column='seen_at')),
                ('last_request_admitted', models.BooleanField(db_column='admitted', help_text='Whether the latest request was admitted.')),
                ('day_used_in_database', models.BigIntegerField(db_column='day_here', db_default=0, default=0, help_text='The part of day_used that Redis did not count.')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('day_used__gte', 0), ('minute_used__gte', 0)), name='quota_counts_from_zero')],
            },
        ),
        migrations.CreateModel(
            name='Publication',
            fields=[
                ('key', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='publication', serialize=False, to='accounts.apikey')),
                ('version', models.BigIntegerField()),
                ('published_version', models.BigIntegerField(db_column='told', help_text='The version published to Redis.')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('published_version__lt', models.F('version'))), fields=['key'], name='publication_untold')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('idempotency_key', models.CharField(db_column='key', max_length=255)),
                ('fingerprint', models.CharField(help_text='The digest of method, path and body.', max_length=64)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('location', models.CharField(blank=True, max_length=1024)),
                ('body', models.BinaryField(default=bytes)),
                ('created_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.account')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('account', 'idempotency_key'), name='one_answer_for_an_idempotency_key')],
            },
        ),
        migrations.CreateModel(
            name='Refusal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('request_id', models.CharField(max_length=128)),
                ('rejected_at', models.DateTimeField(db_column='at', db_index=True)),
                ('reason', models.CharField(choices=[('rate_limit_exceeded', 'Minute limit'), ('daily_quota_exceeded', 'Daily quota'), ('api_key_banned', 'Ban'), ('revoked', 'Revoked key'), ('expired', 'Expired key'), ('elsewhere', 'Address not allowed'), ('suspended', 'Suspended account'), ('insufficient_scope', 'Missing scope')], db_column='rule', max_length=20)),
                ('method', models.CharField(max_length=8)),
                ('route', models.CharField(max_length=100)),
                ('minute_limit', models.BigIntegerField(null=True)),
                ('minute_used', models.BigIntegerField(null=True)),
                ('minute_ends_at', models.DateTimeField(null=True)),
                ('day_limit', models.BigIntegerField(null=True)),
                ('day_used', models.BigIntegerField(null=True)),
                ('day_ends_at', models.DateTimeField(null=True)),
                ('ban_ends_at', models.DateTimeField(null=True)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='rejections', to='accounts.account')),
                ('key', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='rejections', to='accounts.apikey')),
                ('address', models.GenericIPAddressField(help_text="The client's address.", null=True)),
                ('scope', models.CharField(db_default='', default='', help_text='The missing scope.', max_length=20)),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['request_id', '-id'], name='refusal_by_request'), models.Index(fields=['account', '-id'], name='refusal_by_account'), models.Index(fields=['key', '-id'], name='refusal_by_key')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('reason', 'api_key_banned'), _negated=True), ('ban_ends_at__isnull', False), _connector='OR'), name='refusal_by_ban_has_its_end'), models.CheckConstraint(condition=models.Q(('reason__in', ['rate_limit_exceeded', 'daily_quota_exceeded', 'api_key_banned', 'revoked', 'expired', 'elsewhere', 'suspended', 'insufficient_scope'])), name='refusal_for_a_known_rule')],
            },
        ),
        migrations.CreateModel(
            name='MinuteLoad',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('minute', models.BigIntegerField(help_text='Minutes since the epoch.')),
                ('requests', models.BigIntegerField(help_text='Requests that were admitted, or rejected by the quota.')),
                ('written_at', models.BigIntegerField(help_text='The latest write, in microseconds since the epoch.')),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.account')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('account', 'minute'), name='one_load_for_each_account_and_minute')],
            },
        ),
        migrations.CreateModel(
            name='AccountDayLoad',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField(db_index=True)),
                ('minutes', models.JSONField(default=dict, help_text='{"requests in a minute": number of such minutes}, without idle minutes.')),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='minute_histograms', to='accounts.account')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('account', 'day'), name='one_load_for_each_account_and_day')],
            },
        ),
        migrations.CreateModel(
            name='DeprecatedUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('operation', models.CharField(help_text='The operation ID in the OpenAPI document.', max_length=50)),
                ('day', models.DateField(db_index=True)),
                ('admitted', models.BigIntegerField(db_column='requests', help_text='Admitted requests.')),
                ('last_call_at', models.DateTimeField()),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='deprecated_calls', to='accounts.account')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('account', 'operation', 'day'), name='one_use_for_each_account_operation_and_day')],
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('account_id', models.BigIntegerField(help_text='The account that can read it, or 0 for a public event.')),
                ('type', models.CharField(max_length=30)),
                ('created_at', models.BigIntegerField(default=accounts.models.events.now_in_microseconds)),
                ('data', models.TextField(help_text='JSON.')),
                ('id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('sequenced_at', models.BigIntegerField(db_column='numbered_at', help_text='Never decreases from one ID to the next.')),
            ],
            options={
                'indexes': [models.Index(models.F('account_id'), petstore.db.keysets.OneFilterKey('id'), name='event_of_account'), models.Index(models.F('account_id'), models.F('type'), petstore.db.keysets.TwoFilterKey('id'), name='event_of_account_and_type'), models.Index(models.F('type'), petstore.db.keysets.OneFilterKey('id'), condition=models.Q(('account_id__gt', 0)), name='private_event_of_type')],
            },
        ),
        migrations.CreateModel(
            name='EventDraft',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('account_id', models.BigIntegerField(help_text='The account that can read it, or 0 for a public event.')),
                ('type', models.CharField(max_length=30)),
                ('created_at', models.BigIntegerField(default=accounts.models.events.now_in_microseconds)),
                ('data', models.TextField(help_text='JSON.')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('account_id', 0), ('type__startswith', 'pet')), models.Q(('account_id__gt', 0), models.Q(('type__startswith', 'pet'), _negated=True)), _connector='OR'), name='event_is_public_or_of_an_account')],
            },
        ),
        migrations.CreateModel(
            name='Feed',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('last_id', models.BigIntegerField(default=0, help_text='ID of the newest event.')),
                ('last_sequenced_at', models.BigIntegerField(db_column='numbered_at', default=0, help_text='When the newest event was sequenced.')),
                ('last_pruned_id', models.BigIntegerField(db_column='cleared_id', default=0, help_text='Events up to this ID have been pruned.')),
                ('warnings_checked_at', models.BigIntegerField(db_column='swept_at', default=0, help_text='When missed warnings were last checked for.')),
                ('last_pruned_sequenced_at', models.BigIntegerField(db_column='cleared_at', default=0, help_text='When the newest pruned event was sequenced.')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='feed_is_one_row'), models.CheckConstraint(condition=models.Q(('last_pruned_id__lte', models.F('last_id'))), name='feed_keeps_what_is_new')],
            },
        ),
        migrations.CreateModel(
            name='Warned',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('type', models.CharField(max_length=30)),
                ('subject_id', models.BigIntegerField()),
                ('threshold', models.SmallIntegerField(help_text='A percentage, or days before expiry; 0 for a ban.')),
                ('occurrence', models.BigIntegerField(db_column='of_window', help_text="The day, the key's expiry, or the start of the ban.")),
                ('sent_at', models.DateTimeField(db_column='at', db_index=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('type', 'subject_id', 'threshold', 'occurrence'), name='one_warning_for_each_window')],
            },
        ),
        migrations.RunPython(add_rows, migrations.RunPython.noop),
    ]
