import os

from petstore_client import Client

client = Client(os.environ["PETSTORE_KEY"], base_url="{{ base_url }}")
overview = client.account()
for name, window in (("minute", overview.quota.minute), ("day", overview.quota.day)):
    print(f"{name}: {window.remaining} of {window.limit} left until {window.resets_at}")
print("Banned until:", overview.ban and overview.ban.until)
