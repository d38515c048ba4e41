import os

import httpx


def warn_of_deprecation(response: httpx.Response) -> None:
    """Print the removal date of a deprecated operation."""
    if "Deprecation" in response.headers:
        print(f"{response.url} will be removed on {response.headers.get('Sunset')}")


with httpx.Client(
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
    event_hooks={"response": [warn_of_deprecation]},
) as client:
    client.get("{{ base_url }}/pets/1")
