import os

from petstore_client import Client

client = Client(os.environ["PETSTORE_KEY"], base_url="{{ base_url }}")
pet = client.pets.create("Biscuit", category_id=1)  # Only staff can remove it.
print(pet.id, pet.name, pet.status)
