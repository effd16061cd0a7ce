"""A process that runs a study again and again in children and kills them; told by lines of JSON what to do.

Children are forked after everything is imported, so that a try takes as long as the study and no longer. Each line says
``folder``, and either ``after``, the seconds after which the child is killed, or ``event``, the number of the operation
on a file (sync or rename) in place of which it kills itself, with ``into`` only renames into that folder are counted;
with ``errno`` that operation fails instead, as on a bad disk. Neither lets it finish. The answer tells how it ended:
``code`` is 2 where the run said in one line what was wrong.
"""

import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import torch

import verax.study.plan
import verax.study.run
from verax.study.spec import parse_spec
from verax.study.store import StoreError

LOADED_WHEN_NEEDED = ("sklearn.datasets", "scipy.stats", "altair", "vl_convert", "skimage", "PIL", "torch._dynamo")


def main(spec_file: str) -> None:
    for module in LOADED_WHEN_NEEDED:  # once here, not in every child
        importlib.import_module(module)
    content = json.loads(Path(spec_file).read_text())
    for line in sys.stdin:
        order = json.loads(line)
        began = time.monotonic()
        child = os.fork()
        if not child:
            _run(content, order)
        if order.get("after") is not None:
            time.sleep(order["after"])
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        code = None if killed else os.waitstatus_to_exitcode(status)
        print(json.dumps({"killed": killed, "code": code, "seconds": time.monotonic() - began}), flush=True)  # noqa: T201


def _run(content: dict[str, Any], order: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        torch.set_num_threads(1)
        if order.get("event") is not None:
            _fail_at(order["event"], order.get("into"), order.get("errno"))
        setattr(verax.study.run, "write_report", lambda study, workers: study.store.folder / "report.html")  # noqa: B010
        setattr(verax.study.plan, "_seconds_per_input", lambda *arguments: 0.0)  # noqa: B010
        verax.study.run.run_study(parse_spec(content, "doomed"), order["folder"], log=lambda line: None)
        code = 0
    except StoreError:
        code = 2
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)  # noqa: T201
    os._exit(code)


def _fail_at(event: int, into: str | None, number: int | None) -> None:
    """Count syncs and renames of files, and die or fail in place of one of them."""
    seen = 0

    def counted(real: Any) -> Any:
        def operation(*arguments: Any, **settings: Any) -> Any:
            nonlocal seen
            seen += into is None or into == Path(arguments[-1]).parent.name
            if seen == event and number is not None:
                raise OSError(number, os.strerror(number))
            if seen == event:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **settings)

        return operation

    if into is None:
        os.fsync = counted(os.fsync)  # type: ignore[assignment]
    os.replace = counted(os.replace)


if __name__ == "__main__":
    main(sys.argv[1])
