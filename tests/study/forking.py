"""A process in which everything is imported, and whose children, forked from it, do what tests ask of them.

Tests of whole commands and of killed runs so pay for one start, not for one each. A child begins a session of its own,
and what it says goes to a file.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

IMPORTED = ("verax.cli", "verax.study.run", "altair", "torch._dynamo")


class Forking:
    """The process, from outside; it ends with the block."""

    def __enter__(self) -> Self:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=pipe, stdout=pipe, text=True, bufsize=1, env=environment
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def begin(self, folder: Path, call: str, *arguments: str) -> int:
        """Have a function, ``"module:name"``, called in a child that works in the folder; the number of the process."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"folder": str(folder), "call": call, "arguments": arguments}) + "\n")
        return self._told()

    def ended(self) -> int:
        """Wait for the child, and return its exit code."""
        return self._told()

    def verax(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command in a folder."""
        self.begin(folder, "study.forking:command", *arguments)
        code = self.ended()
        return subprocess.CompletedProcess(arguments, code, *((folder / name).read_text() for name in ("out", "err")))

    def _told(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())


def command(*arguments: str) -> None:
    """The command ``verax``; the report lacks the script that draws its charts, which takes long to put together."""
    import verax.report.page  # noqa: PLC0415
    from verax.cli import app  # noqa: PLC0415

    without_pace()
    setattr(verax.report.page, "vega", lambda *arguments: "")  # noqa: B010
    app(arguments, prog_name="verax")


def without_pace() -> None:
    """Do not measure the pace of a run, and use workers however quick it is."""
    import verax.study.plan  # noqa: PLC0415
    import verax.study.run  # noqa: PLC0415

    setattr(verax.study.run, "_QUICK", 0.0)  # noqa: B010
    setattr(verax.study.plan, "_seconds_per_input", lambda *arguments: 0.0)  # noqa: B010


def main() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _obey(json.loads(line))
            return
        print(child, flush=True)  # noqa: T201
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


def _obey(order: dict[str, Any]) -> None:
    os.setsid()
    os.chdir(order["folder"])
    for number, name in ((1, "out"), (2, "err")):
        with open(name, "wb") as file:
            os.dup2(file.fileno(), number)
    module, function = order["call"].split(":")
    getattr(importlib.import_module(module), function)(*order["arguments"])


if __name__ == "__main__":
    main()
