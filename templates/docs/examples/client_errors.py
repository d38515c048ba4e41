import os

from petstore_client import ApiError, Client

client = Client(os.environ["PETSTORE_KEY"], base_url="{{ base_url }}")
try:
    client.pets.create("", category_id=1)
except ApiError as error:
    print(error.status, error.code, error.message)
    for detail in error.details:
        print("-", detail.field, detail.code, detail.message)
    print("To report:", error.request_id)
