"""Uses the Python client that is generated from the service's OpenAPI document: `drive.py BASE_URL KEY`.

Prints its findings as JSON. `generated_client` is importable only while the test runs this.
"""

import json
import sys

from generated_client import AuthenticatedClient  # type: ignore[import-not-found]
from generated_client.api.orders import cancel_order, place_order  # type: ignore[import-not-found]
from generated_client.api.pets import create_pet, get_pet, list_pets  # type: ignore[import-not-found]
from generated_client.models import Error, NewOrder, NewPet, Pet, PetStatus  # type: ignore[import-not-found]


def main(base_url: str, key: str) -> list[object]:
    # A response that the document doesn't declare raises.
    client = AuthenticatedClient(base_url=base_url, token=key, raise_on_unexpected_status=True, timeout=30)
    pets = list_pets.sync(client=client, status=PetStatus.AVAILABLE, limit=2)
    assert all(isinstance(pet, Pet) and pet.status is PetStatus.AVAILABLE for pet in pets)
    made = create_pet.sync(client=client, body=NewPet(name="Generated", category_id=pets[0].category_id))
    assert get_pet.sync(made.id, client=client) == made
    order = place_order.sync(client=client, body=NewOrder(pet_id=made.id))
    taken = place_order.sync(client=client, body=NewOrder(pet_id=made.id))
    assert isinstance(taken, Error)
    cancelled = cancel_order.sync_detailed(order.id, client=client)
    return [len(pets), order.pet_id == made.id, taken.code.value, cancelled.status_code]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
