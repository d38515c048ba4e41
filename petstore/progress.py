"""A progress bar on a terminal."""

import shutil
import time
from typing import TextIO

EVERY_SECONDS = 0.1
WIDTH = 30


class Progress:
    """A bar on the last line of a terminal, wiped at the end; nothing anywhere else."""

    def __init__(self, label: str, total: int | None, stream: TextIO | None) -> None:
        """`total` is None where the end is unknown; without a stream nothing is shown."""
        self.label = label
        self.total = total
        self.stream = stream if stream is not None and stream.isatty() else None
        self.next = 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.draw("")

    def show(self, done: int) -> None:
        """Draw the bar, if the last one is old."""
        if self.stream is None or time.monotonic() < self.next:
            return
        self.next = time.monotonic() + EVERY_SECONDS
        if self.total:
            share = min(done / self.total, 1)
            bar = "#" * int(share * WIDTH)
            self.draw(f"{self.label} [{bar:.<{WIDTH}}] {share:4.0%}")
        else:
            self.draw(f"{self.label} {done:,}")

    def draw(self, text: str) -> None:
        """Replace the line by the text."""
        if self.stream is not None:
            columns = shutil.get_terminal_size().columns - 1
            self.stream.write(f"\r{text[:columns]:{columns}}\r")
            self.stream.flush()
