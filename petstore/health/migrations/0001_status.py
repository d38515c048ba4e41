"""Samples of the state, and incidents, for the status page."""

from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='StatusSample',
            fields=[
                ('minute', models.BigIntegerField(help_text='Minutes since the epoch.', primary_key=True, serialize=False)),
                ('api', models.CharField(choices=[('up', 'Up'), ('degraded', 'Degraded'), ('down', 'Down')], max_length=8)),
                ('database', models.CharField(choices=[('up', 'Up'), ('degraded', 'Degraded'), ('down', 'Down')], max_length=8)),
                ('quota_store', models.CharField(choices=[('up', 'Up'), ('degraded', 'Degraded'), ('down', 'Down')], max_length=8)),
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
                ('text', models.TextField(help_text='Plain text. Everyone can read it.', max_length=5000)),
                ('starts_at', models.DateTimeField(help_text='UTC. The page shows the incident from then on.', verbose_name='from')),
                ('ends_at', models.DateTimeField(blank=True, help_text='UTC. Empty while it lasts.', null=True, verbose_name='to')),
            ],
            options={
                'ordering': ['-starts_at'],
                'constraints': [models.CheckConstraint(condition=models.Q(('ends_at', None), ('ends_at__gte', models.F('starts_at')), _connector='OR'), name='incident_ends_after_it_starts', violation_error_message="An incident can't end before it starts.")],
            },
        ),
    ]
