import os

from petstore_client import Client, NewPet

client = Client(os.environ["PETSTORE_KEY"], base_url="{{ base_url }}")
pets = [NewPet("Biscuit", category_id=1), NewPet("Marble", category_id=2)]
for pet in client.pets.create_many(pets):  # All are added, or none.
    print(pet.id, pet.name)
