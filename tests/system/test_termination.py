"""A worker hears SIGTERM at every moment, also between the handler and the first turn of the loop."""

import subprocess

import pytest

from tests.support.live import ROOT
from tests.support.packages import python

STARTING = """
import os, signal, uvloop
from petstore.serving import lifecycle

lifecycle.begin_worker()
lifecycle.hold_back_sigterm()
from petstore.serving import bodies

loop = uvloop.new_event_loop()
loop.add_signal_handler(signal.SIGINT, loop.stop)
{before}
bodies.end_when_told(loop)
{after}
loop.run_forever()
print("ended")
"""
TOLD = "os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize(("before", "after"), [(TOLD, ""), ("", TOLD)], ids=["before", "after"])
def test_a_worker_that_is_told_to_end_while_it_starts_does(before: str, after: str) -> None:
    done = subprocess.run(
        [python(), "-c", STARTING.format(before=before, after=after)],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("ended\n", 0), done.stderr
