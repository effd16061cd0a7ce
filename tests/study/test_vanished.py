"""A study's directory that vanishes while it runs: the run stops and says so, and makes no half of it again."""

import shutil
from pathlib import Path

import pytest

from study.studies import LINEAR, ran, spec, table
from verax.study import engine
from verax.study.store import StoreError


def test_a_run_stops_when_its_directory_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = engine.compute

    def compute(*arguments: object, **settings: object) -> object:
        shutil.rmtree(tmp_path / "study")
        return computed(*arguments, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "compute", compute)
    small = spec(
        table(LINEAR, others=[{"method": "Gradient"}], limit=2, chunk=2), uncertainty={"inputs": 0}, examples=0
    )
    with pytest.raises(StoreError, match="study: the study's directory is gone"):
        ran(small, tmp_path / "study", workers=1)
    assert not list(tmp_path.glob("study/scores/*"))
