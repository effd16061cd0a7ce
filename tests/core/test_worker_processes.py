"""Worker processes: what they start with, what is heard of them, and their end."""

import contextlib
import os
import signal

import pytest

from core.errands import errands
from verax.core.worker_processes import Worker, WorkerEndedError, ready

NAMES = ["VERAX_NEW", "VERAX_OTHER", "VERAX_KEPT"]


def test_workers_answer_fail_and_die(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers for all of it, because to start one takes long."""
    for name in NAMES[1:]:
        monkeypatch.setenv(name, "of this process")
    own = {"VERAX_NEW": "1", "VERAX_OTHER": "2"}
    with contextlib.ExitStack() as crew:
        one, other = (Worker(errands, greeting, environment=own) for greeting in ("one", "other"))
        crew.callback(one.end)
        crew.callback(other.end)
        assert [os.environ.get(name) for name in NAMES] == [None, "of this process", "of this process"]
        assert ready([one, other], 0.0) == []

        one.send(NAMES)
        assert ready([one, other]) == [one]
        assert one.receive() == ("one", ["1", "2", "of this process"], 1)  # which Ctrl-C has not ended

        one.send("fail")
        assert ready([other, one]) == [one]
        one.process.join()
        one.send(NAMES)  # to nobody: what it had to say is heard all the same
        with pytest.raises(ValueError, match=r"^one, this is wrong$"):
            one.receive()
        with pytest.raises(WorkerEndedError, match=r"^a worker process ended by itself \(status 0\)$"):
            one.receive()

        other.send("die")
        assert ready([other]) == [other]
        with pytest.raises(WorkerEndedError) as found:
            other.receive()
        assert found.value.status == -signal.SIGKILL
    assert one.pipe.closed
    assert other.pipe.closed


def test_a_worker_ends_when_it_is_told_to() -> None:
    worker = Worker(errands, "late", environment={})
    worker.end()
    assert worker.process.exitcode == -signal.SIGKILL
    assert worker.pipe.closed
