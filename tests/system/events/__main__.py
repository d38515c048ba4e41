"""Write events and kill workers while four followers read the feed, then compare.

    DATABASE_URL=postgresql://... python -m tests.system.events --events 100000 --workers 4
    DATABASE_URL=sqlite:///x python -m tests.system.events --events 100000

DATABASE_URL names SQLite, or a server on which a database is created and dropped.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests import environment
from tests.support.live import live_service
from tests.system.events.race import Race


def main() -> int:
    """Run the race; return 1 if a follower did not receive exactly its events."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--events", type=int, default=100_000, help="Minimum number of events. Default: 100000."
    )
    parser.add_argument("--workers", type=int, default=1, help="Workers of the service. Default: 1.")
    options = parser.parse_args()
    os.environ |= {"DATABASE_URL": "sqlite:///race", **environment.FIXED, **os.environ}
    with (
        tempfile.TemporaryDirectory() as folder,
        live_service(Path(folder), workers=options.workers) as service,
    ):
        report = Race(service, options.events).run()
    print(report)
    return int(not report.is_correct)


if __name__ == "__main__":
    sys.exit(main())
