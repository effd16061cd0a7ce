"""A full disk: said in one line, nothing half written, and the run goes on when there is room."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from study.studies import ran, same, scores, spec, stamps
from verax.core.files import Sealed
from verax.study.run import run_study
from verax.study.store import StoreError


class Disk:
    """Counts what is brought to disk, and has room for so many files only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written, self.room, self.number = 0, 1 << 30, errno.ENOSPC
        real = os.fsync

        def sync(file: Any) -> None:
            if self.written >= self.room:
                raise OSError(self.number, os.strerror(self.number))
            self.written += 1
            real(file)

        monkeypatch.setattr("os.fsync", sync)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def refusal(folder: Path) -> str | None:
    """What a run says when it cannot go on; None when it ends well."""
    try:
        run_study(spec(), folder)
    except StoreError as error:
        return str(error)
    return None


def test_the_disk_is_full_at_any_file(trained: Path, finished: Path, disk: Disk) -> None:
    """Room for one file at first, and for a few more after each refusal, until there is room for all."""
    before, disk.room = stamps(trained), 1
    while message := refusal(trained):
        assert message == (
            f"{trained}: no room left on the disk (No space left on device). What was finished is stored; make room "
            "and run the same command again."
        )
        assert not list(trained.rglob("*.part"))
        now = stamps(trained)
        assert before.items() <= now.items()
        assert all(Sealed.read(trained / "scores" / name) is not None for name in now)
        before, disk.written, disk.room = now, 0, disk.room + 3
    assert disk.room >= 10  # it was full at three files at least
    wanted = scores(finished)
    assert same(scores(trained), wanted.filter(wanted["model"] == "Cancer-Linear"))
    assert not (trained / "set-aside").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG], ids=errno.errorcode.get)
def test_quotas_are_limits_as_well(number: int, trained: Path, disk: Disk) -> None:
    disk.room, disk.number = 5, number
    with pytest.raises(StoreError, match="no room left on the disk"):
        run_study(spec(), trained)


def test_other_errors_are_not_taken_for_a_full_disk(trained: Path, disk: Disk) -> None:
    disk.room, disk.number = 5, errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        run_study(spec(), trained)
    disk.room = 1 << 30
    assert ran(spec(), trained)[0].computed == 3


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are written by a library whose errors are no OSErrors."""

    def full(*arguments: Any, **settings: Any) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr("verax.models.checkpoints.save_file", full)
        with pytest.raises(StoreError, match=r"could not be written .*No space left on device"):
            run_study(spec(), tmp_path / "study")
    assert ran(spec(), tmp_path / "study")[0].computed == 3
