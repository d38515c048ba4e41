"""Failed sign-ins have a table of their own, which is pruned; the audit trail never is."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('backoffice', '0008_name_of_the_trail'),
    ]

    operations = [
        migrations.CreateModel(
            name='FailedSignIn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('user_id', models.BigIntegerField(null=True)),
                ('username', models.CharField(blank=True, max_length=150, verbose_name='name')),
                ('reason', models.CharField(max_length=500)),
                ('address', models.GenericIPAddressField(verbose_name='from address')),
                ('request_id', models.CharField(blank=True, max_length=128)),
            ],
            options={
                'verbose_name': 'failed sign-in',
                'ordering': ['-id'],
                'default_permissions': (),
                'indexes': [models.Index(fields=['user_id', '-id'], name='failed_sign_in_by_user'), models.Index(fields=['username', '-id'], name='failed_sign_in_by_name'), models.Index(fields=['request_id', '-id'], name='failed_sign_in_by_request')],
            },
        ),
    ]
