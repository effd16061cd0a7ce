"""Files that are written whole or not at all."""

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from verax.core.files import (
    BLANK_CHECKSUM,
    DiskError,
    Sealed,
    has_valid_checksum,
    sweep_parts,
    with_checksum,
    write_atomically,
)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "folder" / "file"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"

    def full(_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"three")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


def synced(monkeypatch):
    """What is brought to disk, in order: renames by their new name, files and folders by their kind."""
    steps, real_sync, real_replace = [], os.fsync, os.replace

    def sync(file):
        steps.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        real_sync(file)

    def replace(old, new, **settings):
        steps.append("rename")
        real_replace(old, new, **settings)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    return steps


def test_a_rename_is_brought_to_disk_with_its_folder(tmp_path, monkeypatch):
    steps = synced(monkeypatch)
    write_atomically(tmp_path / "file", b"one")
    assert steps == ["file", "rename", "folder"]
    steps.clear()
    write_atomically(tmp_path / "new" / "deep" / "file", b"one")  # two folders are made: their names count as well
    assert steps == ["folder", "folder", "file", "rename", "folder"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_disk_that_cannot_sync_folders_is_no_error(tmp_path, monkeypatch, number):
    real = os.fsync

    def sync(file):
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(number, os.strerror(number))
        real(file)

    monkeypatch.setattr(os, "fsync", sync)
    write_atomically(tmp_path / "file", b"one")
    assert (tmp_path / "file").read_bytes() == b"one"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG])
def test_errors_of_a_failing_disk_name_the_file_and_what_to_do(tmp_path, monkeypatch, number):
    def fail(_):
        raise OSError(number, os.strerror(number))  # as the system does: without a name

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DiskError) as refused:
        write_atomically(tmp_path / "file", b"one")
    assert refused.value.filename == str(tmp_path / "file")
    assert refused.value.errno == number
    assert refused.value.strerror.startswith(f"{os.strerror(number)}; ")
    assert not list(tmp_path.iterdir())


KILLED = """
import os, pathlib, signal, sys
from verax.core.files import whole_or_nothing
with whole_or_nothing(pathlib.Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_leftovers_of_a_killed_process_are_swept_and_those_of_others_are_not(tmp_path):
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "file")], check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".part")
    mine = left.with_name(left.name.replace(left.name.split("-")[1], str(os.getpid())))
    elsewhere = left.with_name(".file.00000000-1-00.part")  # of another machine that shares the disk
    for path in (mine, elsewhere, tmp_path / "download.part", tmp_path / ".own.part"):
        path.write_bytes(b"")
    write_atomically(tmp_path / "another", b"one")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [mine.name, elsewhere.name, "another", "download.part", ".own.part"]
    )
    sweep_parts(tmp_path)
    assert mine.exists()


def test_a_folder_is_not_listed_at_every_write(tmp_path, monkeypatch):
    listed, real = [], os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: listed.append(folder) or real(folder))
    for number in range(10):
        write_atomically(tmp_path / f"{number}", b"one")
    assert len(listed) == 1


def test_no_flipped_bit_of_a_sealed_file_goes_unseen(tmp_path):
    content = with_checksum(bytes(range(256)) + BLANK_CHECKSUM.encode() + b"end")
    assert has_valid_checksum(content)
    path = tmp_path / Sealed.name("x", content, ".bin")
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        assert not has_valid_checksum(bytes(changed))
    path.write_bytes(content)
    assert Sealed.read(path) == content
