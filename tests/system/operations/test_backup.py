"""A backup made under writes can be restored and served from: docs/backup.md, in small."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.servers import RedisServer
from tests.system.operations.backup import back_up_and_restore


def test_restored_backup_has_every_write_acknowledged_before_it_and_serves(
    tmp_path: Path, redis: RedisServer
) -> None:
    if os.environ["DATABASE_URL"].startswith("sqlite"):
        pytest.skip("pg_dump backs PostgreSQL up; SQLite's file is copied.")
    if shutil.which("pg_dump") is None:
        assert os.environ.get("CI") != "true", "CI must test backups: install PostgreSQL's client programs."
        pytest.skip("No pg_dump is installed.")
    redis.client.flushall()
    found = back_up_and_restore(tmp_path, redis.url, pets=100, seconds=0.5)
    assert found.sound, found
    assert found.written > 10
