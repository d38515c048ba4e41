"""Services for hostile or slow clients."""

import os
from collections.abc import Iterator

import pytest

from tests.support.large_file import write_large_file
from tests.support.live import Service, live_service

MODES = ["threads"] if os.environ["DATABASE_URL"].startswith("sqlite") else ["loop", "threads"]
# For what does not depend on the mode: how bodies and files wait.
IN_ONE_MODE = pytest.mark.parametrize("short_timeout_service", MODES[:1], indirect=True)


@pytest.fixture(scope="module", params=MODES)
def short_timeout_service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """The service on one worker, with the CLIENT_SECONDS of the test's module."""
    environment = {
        "SERVE_MODE": request.param,
        "CLIENT_SECONDS": str(request.module.CLIENT_SECONDS),
    }
    folder = tmp_path_factory.mktemp("impatient")
    environment |= write_large_file(folder)
    with live_service(folder, workers=1, **environment) as service:
        yield service
