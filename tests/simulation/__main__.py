"""Runs seeds of the simulation, or replays one: `python -m tests.simulation --seed 17`."""

import argparse
import os
import sys
import time

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
import django

from tests import environment  # noqa: F401

django.setup()
from tests.simulation.kinds import KINDS, scenario  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed, and print its steps")
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--kind", choices=sorted(KINDS))
    options = parser.parse_args()
    if options.seed is not None:
        chosen = scenario(options.seed, options.kind)
        violations = chosen.run()
        for when, *what in chosen.world.trace:
            print(f"{when:10.4f}", *what)
        return 1 if violations else 0
    start = time.process_time()
    for seed in range(options.first, options.first + options.count):
        chosen = scenario(seed, options.kind)
        if violations := chosen.run():
            print(f"seed {seed} {type(chosen).__name__}: {violations[:2]}")
            return 1
    seconds = time.process_time() - start
    print(f"No violation; {seconds:.1f} s of CPU, {1000 * seconds / options.count:.2f} ms per seed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
