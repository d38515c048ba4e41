import os
from concurrent.futures import ThreadPoolExecutor

from petstore_client import Client, Pet

client = Client(os.environ["PETSTORE_KEY"], base_url="{{ base_url }}")


def list_category(category_id: int) -> list[Pet]:
    return client.pets.list(category_id=category_id, limit=3)


with ThreadPoolExecutor() as pool:
    for pets in pool.map(list_category, range(1, 11)):
        print([pet.name for pet in pets])
