"""A full disk: said in one line, nothing half written, and the run goes on when there is room."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from study.studies import ran, same, scores, spec, stamps, whole
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
        assert message.startswith(f"{trained}/")
        assert message.endswith(
            ": No space left on device; make room and do the same again. What was finished is stored."
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


ADVICE = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room within your quota",
    errno.EFBIG: "raise the limit",
    errno.EROFS: "choose a folder that can be written to",
    errno.EIO: "the disk fails",
}


@pytest.mark.parametrize("number", ADVICE, ids=errno.errorcode.get)
def test_a_failing_disk_names_the_file_and_what_to_do(number: int, trained: Path, disk: Disk) -> None:
    disk.room, disk.number = 5, number
    with pytest.raises(StoreError, match=rf"^{trained}/\S+: {os.strerror(number)}; {ADVICE[number]}.* is stored\.$"):
        run_study(spec(), trained)
    disk.room = 1 << 30
    assert ran(spec(), trained)[0].computed == 3


def test_other_errors_are_not_taken_for_a_failing_disk(trained: Path, disk: Disk) -> None:
    disk.room, disk.number = 5, errno.EPERM
    with pytest.raises(PermissionError):
        run_study(spec(), trained)


def test_a_disk_that_cannot_be_read_is_not_a_damaged_file(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read now may be whole: it is neither set aside nor computed anew."""
    real, before = Path.read_bytes, stamps(copied)

    def broken(path: Path) -> bytes:
        if path.suffix == ".parquet":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", broken)
        with pytest.raises(StoreError, match=r"\.parquet: Input/output error; the disk fails"):
            run_study(whole(), copied)
    assert stamps(copied) == before
    assert not (copied / "set-aside").exists()
    assert ran(whole(), copied)[0].computed == 0


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path, disk: Disk) -> None:
    disk.room = 8
    with pytest.raises(StoreError, match=r"/models/Cancer-Linear\.checkpoint: No space left on device"):
        run_study(spec(), tmp_path / "study")
    disk.room = 1 << 30
    assert ran(spec(), tmp_path / "study")[0].computed == 3
