"""The schema of version 1.1.0, and the starter categories, so that a pet can be added at once (D5)."""

from typing import Any

import django.db.models.deletion
import django.utils.timezone
import inventory.search
import petstore.db.keysets
from django.conf import settings
from django.db import migrations, models

CATEGORIES = [
    ("Dogs", "Puppies and grown dogs of all sizes."),
    ("Cats", "Kittens and grown cats, indoor and outdoor."),
    ("Birds", "Canaries, budgerigars, parrots and finches."),
    ("Fish", "Freshwater and saltwater fish for the aquarium."),
    ("Rabbits", "Dwarf and large breeds."),
    ("Rodents", "Hamsters, guinea pigs, mice, rats and gerbils."),
    ("Reptiles", "Geckos, snakes, tortoises and bearded dragons."),
    ("Amphibians", "Frogs, newts and axolotls."),
    ("Horses", "Ponies and horses."),
    ("Invertebrates", "Stick insects, snails and hermit crabs."),
]


def add_categories(apps: Any, schema_editor: Any) -> None:
    Category = apps.get_model("inventory", "Category")
    Category.objects.bulk_create(
        Category(name=name, description=description) for name, description in CATEGORIES
    )


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("inventory", "0001_initial"),
        ("inventory", "0002_categories"),
        ("inventory", "0003_lists_by_status"),
        ("inventory", "0004_orders"),
        ("inventory", "0005_histories_stay"),
        ("inventory", "0006_stock_count"),
        ("inventory", "0007_back_office_lists"),
        ("inventory", "0008_indexes_of_filtered_lists"),
        ("inventory", "0009_indexes_that_no_list_reads"),
        ("inventory", "0010_orders_of_an_account"),
        ("inventory", "0011_stages_of_orders"),
        ("inventory", "0012_pets_by_name_in_nfc"),
        ("inventory", "0013_remove_pet_by_name"),
    ]
    dependencies = [
        ("accounts", "0001_squashed_0025_rename_fields"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.CreateModel(
            name='Category',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=255, unique=True)),
                ('description', models.TextField(blank=True)),
            ],
            options={
                'verbose_name_plural': 'categories',
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='category_has_a_name')],
            },
        ),
        migrations.CreateModel(
            name='Pet',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=255)),
                ('status', models.CharField(choices=[('available', 'Available'), ('pending', 'Pending'), ('sold', 'Sold')], default='available', max_length=9)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('category', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='pets', to='inventory.category')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(fields=['status', 'id'], name='pet_by_status'), models.Index(condition=models.Q(('status', 'available')), fields=['id'], name='pet_available'), models.Index(condition=models.Q(('status', 'pending')), fields=['id'], name='pet_pending'), models.Index(condition=models.Q(('status', 'sold')), fields=['id'], name='pet_sold'), models.Index(models.F('category'), petstore.db.keysets.OneFilterKey('id'), name='pet_of_category'), models.Index(models.F('category'), models.F('status'), petstore.db.keysets.TwoFilterKey('id'), name='pet_of_category_and_status'), models.Index(inventory.search.Folded('name'), models.F('id'), name='pet_by_name_in_nfc')],
                'constraints': [models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='pet_has_a_name'), models.CheckConstraint(condition=models.Q(('status__in', ['available', 'pending', 'sold'])), name='pet_status_is_known')],
            },
        ),
        migrations.CreateModel(
            name='Order',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('placed', 'Placed'), ('approved', 'Approved'), ('delivered', 'Delivered'), ('cancelled', 'Cancelled')], default='placed', max_length=9)),
                ('ship_date', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='orders', to='accounts.account')),
                ('pet', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='orders', to='inventory.pet')),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['created_at'], name='order_by_time'), models.Index(models.F('account'), petstore.db.keysets.OneFilterKey('id'), name='order_of_account'), models.Index(models.F('account'), models.F('status'), petstore.db.keysets.TwoFilterKey('id'), name='order_of_account_and_status'), models.Index(models.F('status'), petstore.db.keysets.OneFilterKey('id'), name='order_of_status'), models.Index(condition=models.Q(('status', 'placed')), fields=['id'], name='order_to_approve'), models.Index(condition=models.Q(('ship_date__isnull', True), ('status', 'approved')), fields=['id'], name='order_to_ship'), models.Index(condition=models.Q(('ship_date__isnull', False), ('status', 'approved')), fields=['id'], name='order_shipped'), models.Index(condition=models.Q(('status__in', ('delivered', 'cancelled'))), fields=['id'], name='order_done')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('status__in', ('placed', 'approved'))), fields=('pet',), name='one_live_order_for_a_pet'), models.CheckConstraint(condition=models.Q(('status__in', ['placed', 'approved', 'delivered', 'cancelled'])), name='order_status_is_known'), models.CheckConstraint(condition=models.Q(('ship_date__isnull', True), models.Q(('status', 'placed'), _negated=True), _connector='OR'), name='order_ships_once_approved')],
            },
        ),
        migrations.CreateModel(
            name='OrderEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('from_status', models.CharField(blank=True, max_length=9)),
                ('to_status', models.CharField(max_length=9)),
                ('by', models.CharField(max_length=255)),
                ('reason', models.CharField(blank=True, max_length=255)),
                ('order', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='inventory.order')),
            ],
            options={
                'ordering': ['-id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='PetEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('from_status', models.CharField(blank=True, max_length=9)),
                ('to_status', models.CharField(max_length=9)),
                ('by', models.CharField(max_length=255)),
                ('reason', models.CharField(blank=True, max_length=255)),
                ('order', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='inventory.order')),
                ('pet', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='inventory.pet')),
            ],
            options={
                'ordering': ['-id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='PetUpload',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token', models.UUIDField()),
                ('file_name', models.CharField(max_length=255)),
                ('file_format', models.CharField(max_length=5)),
                ('content', models.BinaryField()),
                ('made_at', models.DateTimeField(db_index=True)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='StockCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('due_at', models.DateTimeField(help_text='When the next count may begin. Who counts moves it first.')),
                ('counted_at', models.DateTimeField(null=True)),
                ('took_ms', models.PositiveIntegerField(default=0)),
                ('pets', models.JSONField(default=list, help_text='[category id, status, number of pets] of each.')),
                ('orders_placed', models.BigIntegerField(default=0)),
                ('orders_approved', models.BigIntegerField(default=0, help_text='Those that have shipped, too.')),
                ('orders_shipped', models.BigIntegerField(db_default=0, default=0)),
                ('orders_done', models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='stock_count_is_one_row')],
            },
        ),
        migrations.RunPython(add_categories, migrations.RunPython.noop),
    ]
