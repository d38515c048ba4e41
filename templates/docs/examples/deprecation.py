import os
import warnings

import httpx


def warn_of_deprecation(response: httpx.Response) -> None:
    """Say what will go away, and when."""
    if "Deprecation" in response.headers:
        request = response.request
        warnings.warn(
            f"{request.method} {request.url} goes on {response.headers.get('Sunset')}", stacklevel=2
        )


with httpx.Client(
    headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"},
    event_hooks={"response": [warn_of_deprecation]},
) as client:
    client.get("{{ base_url }}/pets/1")
