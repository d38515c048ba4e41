import os

from petstore_client import Client

client = Client(os.environ["PETSTORE_KEY"], base_url="{{ base_url }}")
for pet in client.pets.list(status="available", limit=3):
    print(pet.id, pet.name)
