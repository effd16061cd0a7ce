"""Kills and failing disks at seeded moments: nothing that was stored is lost, and the table is that of a quiet run."""

import errno
import random
from pathlib import Path

import pytest

from faults.conftest import COUNTS, MORE
from study.test_killed import Doomed, check_finished, check_intact, fresh

KILLS, ERRORS = 8 * MORE, 10 * MORE
NUMBERS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS)
MOST = 60  # operations on files in one run, and a few more


@pytest.fixture(scope="module")
def quiet(killer: Doomed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quiet") / "study"
    assert killer.run(folder)["code"] == 0
    return folder


def test_every_kill_is_survived(killer: Doomed, quiet: Path, tmp_path: Path) -> None:
    chance, number = random.Random(14), 0  # noqa: S311  # no secret
    folder, before, kills = fresh(tmp_path / "0", quiet), {}, 0
    while kills < KILLS:
        ended = killer.run(folder, event=chance.randrange(1, MOST))
        before = check_intact(folder, before)
        kills += ended["killed"]
        if not ended["killed"]:
            number += 1
            check_finished(folder, quiet)
            folder, before = fresh(tmp_path / f"{number}", quiet), {}
    assert killer.run(folder)["code"] == 0
    check_intact(folder, before)
    check_finished(folder, quiet)
    COUNTS["kills survived"] += kills


def test_every_error_of_the_disk_is_survived(killer: Doomed, quiet: Path, tmp_path: Path) -> None:
    """Each is said in one line (status 2), and the next run goes on."""
    chance, number = random.Random(15), 0  # noqa: S311  # no secret
    folder, before, errors = fresh(tmp_path / "0", quiet), {}, 0
    while errors < ERRORS:
        ended = killer.run(folder, event=chance.randrange(1, MOST), errno=NUMBERS[errors % len(NUMBERS)])
        before = check_intact(folder, before)
        assert not list(folder.rglob("*.part"))
        errors += ended["code"] == 2
        if ended["code"] == 0:
            number += 1
            check_finished(folder, quiet)
            folder, before = fresh(tmp_path / f"{number}", quiet), {}
    assert killer.run(folder)["code"] == 0
    check_finished(folder, quiet)
    COUNTS["disk errors survived"] += errors
