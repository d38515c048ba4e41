import os

from petstore_client import ApiError, Client, ConnectionFailedError, RateLimitError

client = Client(os.environ["PETSTORE_KEY"], base_url="{{ base_url }}")
pets = client.pets.list(status="available", limit=1)
if not pets:
    raise SystemExit("There is no pet to order.")
try:
    order = client.orders.place(pets[0].id)  # Retries have the same Idempotency-Key.
except RateLimitError as error:
    raise SystemExit(f"Retry after {error.retry_at}.") from None
except ConnectionFailedError as error:
    raise SystemExit(f"It may have been placed: look at your orders. {error}") from None
except ApiError as error:
    raise SystemExit(f"It was not placed. {error}") from None
print(order.id, order.status)
