"""A worker's numbers can't end it, however full the disk is."""

from pathlib import Path

import httpx

from tests.support.live import live_service

BLOCK = 512  # Bytes; the unit of st_blocks (stat(2)).


def test_numbers_have_their_room_from_the_start(tmp_path: Path) -> None:
    """A hole in a file of a full disk is a bus error for who writes to it through memory."""
    folder = tmp_path / "numbers"
    folder.mkdir()
    with live_service(tmp_path, workers=1, METRICS_DIR=str(folder)) as service:
        for path in ("/", "/docs", "/nothing", "/v1/pets"):
            for method in ("GET", "POST", "PUT", "BREW"):
                httpx.request(method, f"{service.url}{path}")
        files = list(folder.glob("*/*.db"))
        assert files
        for file in files:
            found = file.stat()
            assert found.st_blocks * BLOCK >= found.st_size, f"{file.name} has holes."
