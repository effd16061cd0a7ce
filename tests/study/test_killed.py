"""Runs killed at any moment: what is stored stays, what is not is computed, and the table is that of a quiet run."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from study import doomed
from study.studies import content, same, scores, stamps, table
from verax.core.files import Sealed

FEW = [{"method": "Gradient"}, {"method": "IntegratedGradients", "points": 4}, {"method": "LimeTabular", "samples": 16}]
TRIES = 12


class Doomed:
    """The process that kills its children."""

    def __init__(self, folder: Path) -> None:
        own = folder / "spec.json"
        own.write_text(json.dumps(content(table(others=FEW, limit=32, chunk=2))))
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, doomed.__file__, str(own)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)

    def run(self, folder: Path, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"folder": str(folder), **order}) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert found["code"] in (0, 2, None), found
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doomed]:
    own = Doomed(tmp_path_factory.mktemp("killer"))
    yield own
    own.close()


@pytest.fixture(scope="module")
def quiet(killer: Doomed, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """An undisturbed run, and how long one takes when the model is there."""
    folder = tmp_path_factory.mktemp("quiet") / "study"
    assert not killer.run(folder)["killed"]
    again = fresh(folder.with_name("again"), folder)
    seconds = killer.run(again)["seconds"]
    assert same(scores(folder), scores(again))
    return folder, seconds


def check_intact(folder: Path, before: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """After a kill every file of scores is whole, and those that were there are the same files."""
    now = stamps(folder)
    assert before.items() <= now.items()
    for name in now:
        assert Sealed.read(folder / "scores" / name) is not None
    return now


def check_finished(folder: Path, quiet: Path) -> None:
    assert same(scores(folder), scores(quiet))
    for kind in ("uncertainty", "examples"):
        assert sorted(path.name for path in (folder / kind).iterdir()) == sorted(
            path.name for path in (quiet / kind).iterdir()
        )
    assert not list(folder.rglob("*.part"))
    assert not (folder / "set-aside").exists()


def test_killed_at_random_moments(killer: Doomed, quiet: tuple[Path, float], tmp_path: Path) -> None:
    wanted, seconds = quiet
    chance = random.Random(0)  # noqa: S311  # no secret
    folder, before, kills = fresh(tmp_path / "study", wanted), {}, 0
    while kills < TRIES:
        ended = killer.run(folder, after=chance.uniform(0.02, 0.5) * seconds)
        kills += ended["killed"]
        before = check_intact(folder, before)
        if not ended["killed"]:  # it was faster: begin a new one, and be faster
            check_finished(folder, wanted)
            folder, before, seconds = fresh(folder.with_name(f"{folder.name}-"), wanted), {}, 0.8 * seconds
    assert not killer.run(folder)["killed"]
    check_intact(folder, before)
    check_finished(folder, wanted)


def fresh(folder: Path, quiet: Path) -> Path:
    """A directory with nothing but the trained model."""
    shutil.copytree(quiet / "models", folder / "models")
    return folder


def test_killed_in_place_of_a_write(killer: Doomed, quiet: tuple[Path, float], tmp_path: Path) -> None:
    """From an empty directory, so that training is hit as well; each run dies a little later than the last one."""
    wanted, _ = quiet
    chance = random.Random(1)  # noqa: S311  # no secret
    folder, before, kills = tmp_path / "study", {}, 0
    while killer.run(folder, event=chance.randrange(1, 80))["killed"]:
        kills += 1
        before = check_intact(folder, before)
    check_intact(folder, before)
    check_finished(folder, wanted)
    assert kills >= 3


def test_a_half_written_unit_is_not_taken_for_a_whole_one(
    killer: Doomed, quiet: tuple[Path, float], tmp_path: Path
) -> None:
    folder = fresh(tmp_path / "study", quiet[0])
    assert killer.run(folder, event=3, into="scores")["killed"]
    (left,) = folder.glob("scores/.*.part")
    assert len(check_intact(folder, {})) == 2
    assert not killer.run(folder)["killed"]
    assert not left.exists()
    check_finished(folder, quiet[0])
