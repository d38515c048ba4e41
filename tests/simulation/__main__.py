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
    parser.add_argument("--seed", type=int, help="replay this one, with a trace")
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--kind", choices=sorted(KINDS))
    parser.add_argument("--keep-on", action="store_true")
    options = parser.parse_args()
    if options.seed is not None:
        found = scenario(options.seed, options.kind)
        broken = found.run()
        for when, *what in found.world.trace:
            print(f"{when:10.4f}", *what)
        return 1 if broken else 0
    began = time.process_time()
    failed = 0
    for seed in range(options.first, options.first + options.count):
        found = scenario(seed, options.kind)
        if broken := found.run():
            failed += 1
            print(f"seed {seed} {type(found).__name__}: {broken[:2]}")
            if not options.keep_on:
                break
    seconds = time.process_time() - began
    print(
        f"{failed} failed; {seconds:.1f} s, {1000 * seconds / options.count:.2f} ms of the processor a seed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
