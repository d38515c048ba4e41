"""Samples of the state, and incidents, for the status page.

Groups that see keys see incidents; those that issue keys write them; those that delete accounts delete them.
"""

import django.db.models.deletion
import django.utils.timezone
from django.contrib.auth.management import create_permissions
from django.db import migrations, models

STATES = [('up', 'Up'), ('degraded', 'Degraded'), ('down', 'Down')]
VERBS = {"view_apikey": ("view",), "add_apikey": ("add", "change"), "delete_account": ("delete",)}


def let_write_incidents(apps, schema_editor):
    config = apps.get_app_config("health")
    config.models_module = True  # Or else it is taken for an app without models.
    create_permissions(config, verbosity=0, apps=apps)
    config.models_module = None
    permissions = apps.get_model("auth", "Permission").objects
    for codename, verbs in VERBS.items():
        granted = permissions.filter(
            content_type__app_label="health", codename__in=[f"{verb}_incident" for verb in verbs]
        )
        for group in apps.get_model("auth", "Group").objects.filter(
            permissions__content_type__app_label="accounts", permissions__codename=codename
        ):
            group.permissions.add(*granted)


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("health", "0001_status"),
        ("health", "0002_groups"),
        ("health", "0003_reword_texts"),
        ("health", "0004_no_quota_store"),
        ("health", "0005_standard_names"),
        ("health", "0006_incident_updates"),
        ("health", "0007_remove_incident_texts"),
    ]
    dependencies = [("backoffice", "0001_squashed_0009_failed_sign_ins")]
    operations = [
        migrations.CreateModel(
            name='StatusSample',
            fields=[
                ('minute', models.BigIntegerField(help_text='Minutes since the epoch.', primary_key=True, serialize=False)),
                ('api', models.CharField(choices=STATES, max_length=8)),
                ('database', models.CharField(choices=STATES, max_length=8)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='StatusDay',
            fields=[
                ('day', models.BigIntegerField(help_text='Days since the epoch.', primary_key=True, serialize=False)),
                ('api_up', models.SmallIntegerField()),
                ('api_degraded', models.SmallIntegerField()),
                ('api_down', models.SmallIntegerField()),
                ('database_up', models.SmallIntegerField()),
                ('database_degraded', models.SmallIntegerField()),
                ('database_down', models.SmallIntegerField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Incident',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('title', models.CharField(max_length=200)),
                ('impact', models.CharField(choices=[('none', 'None'), ('minor', 'Minor'), ('major', 'Major'), ('critical', 'Critical')], db_default='minor', default='minor', max_length=8)),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='IncidentUpdate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('stage', models.CharField(choices=[('investigating', 'Investigating'), ('identified', 'Identified'), ('monitoring', 'Monitoring'), ('resolved', 'Resolved')], default='investigating', max_length=13)),
                ('posted_at', models.DateTimeField(default=django.utils.timezone.now, help_text='In UTC. The update is shown from this time on.', verbose_name='from')),
                ('text', models.TextField(help_text='Plain text, visible to the public.', max_length=5000)),
                ('incident', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='updates', to='health.incident')),
            ],
            options={
                'verbose_name': 'update',
                'ordering': ['-posted_at', '-pk'],
                'default_permissions': (),
            },
        ),
        migrations.RunPython(let_write_incidents),
    ]
