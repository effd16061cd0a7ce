"""A run of a study with two worker processes, for tests that end it.

It hands out no more units after the first one is done, so that it can be ended in the midst of its work.
"""

import contextlib
import io
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import verax.study.run
from study.forking import without_pace
from verax.study.run import Watcher
from verax.study.spec import parse_spec


class Waiting(Watcher):
    """A watcher that does not come back from the first unit."""

    def __call__(self, event: str | int) -> None:
        while isinstance(event, int):
            time.sleep(60)


@contextlib.contextmanager
def watching(units: int) -> Iterator[Waiting]:
    yield Waiting(units, io.StringIO())


def main(spec_file: str, folder: str) -> None:
    without_pace()
    setattr(verax.study.run, "watching", watching)  # noqa: B010
    spec = parse_spec(json.loads(Path(spec_file).read_text()), "crew")
    try:
        verax.study.run.run_study(spec, folder, workers=2)
    except KeyboardInterrupt:
        sys.exit(130)
