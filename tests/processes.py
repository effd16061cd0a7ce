"""Commands in processes of their own, which all come from one that has imported torch: to do that takes seconds."""

import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn


def ran_apart(commands: Iterable[str], folder: Path) -> list[subprocess.CompletedProcess[str]]:
    """What each ``verax`` command said and how it ended, run in a folder, one after the other."""
    lines = [command.split() for command in commands]
    program = [sys.executable, __file__, str(folder)]
    found = subprocess.run(program, input=json.dumps(lines), capture_output=True, text=True, check=True)
    ends = json.loads(found.stdout)
    return [subprocess.CompletedProcess(line, *end) for line, end in zip(lines, ends, strict=True)]


def _ran(command: list[str]) -> tuple[int, str, str]:
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        if not (child := os.fork()):
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            _end_with(command)
        _, status = os.waitpid(child, 0)
        said = [stream.seek(0) or stream.read().decode() for stream in (output, errors)]
    return os.waitstatus_to_exitcode(status), said[0], said[1]


def _end_with(command: list[str]) -> NoReturn:
    """Run a command and end at once: to take apart all that was imported would take longer than the command."""
    sys.argv[1:] = command
    try:
        runpy.run_module("verax", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for module in ("verax.cli", "verax.study.run", "verax.tuning", "scipy.stats", "sklearn.datasets"):
        importlib.import_module(module)  # once for all
    orders = json.load(sys.stdin)
    os.chdir(sys.argv[1])
    sys.path[0] = ""  # as of python -m
    print(json.dumps([_ran(order) for order in orders]))  # noqa: T201
