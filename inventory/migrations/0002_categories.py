"""The starter categories, so that a pet can be added on first start (D5)."""

from django.db import migrations

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


def add_categories(apps, schema_editor):
    Category = apps.get_model("inventory", "Category")
    Category.objects.bulk_create(
        Category(name=name, description=description) for name, description in CATEGORIES
    )


class Migration(migrations.Migration):
    dependencies = [("inventory", "0001_initial")]
    operations = [migrations.RunPython(add_categories, migrations.RunPython.noop)]
