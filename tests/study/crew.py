"""A process that runs a study with two worker processes, for tests that end it: ``python crew.py SPEC.json FOLDER``.

It hands out no more units after the first one is done, so that it can be ended in the midst of its work.
"""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import verax.study.plan
import verax.study.run
from verax.study.spec import parse_spec


class Waiting:
    """A watcher that does not come back from the first unit."""

    def log(self, line: str) -> None:
        """Not of interest."""

    def family(self, name: str) -> None:
        """Not of interest."""

    def done(self, rows: int) -> None:
        while True:
            time.sleep(60)


@contextlib.contextmanager
def watching(units: int) -> Iterator[Waiting]:
    yield Waiting()


def main(spec_file: str, folder: str) -> None:
    setattr(verax.study.run, "_QUICK", 0.0)  # noqa: B010
    setattr(verax.study.run, "watching", watching)  # noqa: B010
    setattr(verax.study.plan, "_seconds_per_input", lambda *arguments: 0.0)  # noqa: B010
    spec = parse_spec(json.loads(Path(spec_file).read_text()), "crew")
    try:
        verax.study.run.run_study(spec, folder, workers=2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(*sys.argv[1:])
