"""JSON from the commands about studies: the same facts as in the text, alone on the standard output."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from typer.testing import CliRunner, Result

from study.studies import LINEAR, MLP, content, flip, ran, spec, table
from verax.cli import app
from verax.study.spec import load_spec

RUN = CliRunner()
METHODS = [{"method": "Gradient"}, {"method": "Random"}]


def told(*arguments: object) -> Result:
    return RUN.invoke(app, [str(one) for one in arguments])


def facts(*arguments: object, code: int = 0) -> dict[str, Any]:
    found = told(*arguments, "--json")
    assert found.exit_code == code, found.output
    parsed: dict[str, Any] = json.loads(found.stdout)
    return parsed


def small() -> dict[str, Any]:
    return table(LINEAR, MLP, others=METHODS, limit=5, chunk=3)


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    """Half a second for each input, without measuring the pace; and no report, which takes longer than the study."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verax.study.plan._seconds_per_input", lambda *arguments: 0.5)
        patch.setattr("verax.study.run.write_report", lambda study, workers: study.store.folder / "report.html")
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, _quick: None) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "study"
    ran(spec(small()), folder)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "study"))


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(tomli_w.dumps(content(small())))
    return tmp_path / "small.toml"


def test_the_plan(toml: Path, tmp_path: Path) -> None:
    found = facts("study", "run", toml, "--out", tmp_path / "new", "--dry-run", "--workers", 2)
    assert not (tmp_path / "new").exists()
    assert (found["study"], found["units"], found["to_compute"]) == ("small", 4, 4)
    assert 2 * found["seconds"] == sum(one["seconds"] for one in found["models"]) == 2 * 5 * 0.5
    for one, name in zip(found["models"], ("Cancer-Linear", "Cancer-MLP"), strict=True):
        assert (one["name"], one["configurations"], one["inputs"]) == (name, 2, 5)
    assert found["attribution_bytes_at_most"] == load_spec(toml).cache_gib * 2**30
    text = told("study", "run", toml, "--out", tmp_path / "new", "--dry-run").stdout
    for one in found["models"]:
        most, alone = one["rows_at_most"], one["rows_without_sharing"]
        assert f"at most {most['forward']:,} rows forward, {most['backward']:,} of them backward" in text
        assert f"(without sharing {alone['forward']:,} and {alone['backward']:,})" in text


def test_the_plan_of_what_is_left(toml: Path, copied: Path) -> None:
    assert facts("study", "run", toml, "--out", copied, "--dry-run")["to_compute"] == 0
    for path in (copied / "scores").glob("Cancer-MLP*"):
        path.unlink()
    found = facts("study", "run", toml, "--out", copied, "--dry-run")
    assert found["to_compute"] == 2
    assert [one["inputs"] for one in found["models"]] == [0, 5]


def test_a_run(toml: Path, copied: Path) -> None:
    found = told("study", "run", toml, "--out", copied, "--json")
    report = str(copied / "report.html")
    assert json.loads(found.stdout) == {"study": "small", "folder": str(copied), "computed": 0, "report": report}
    assert "0 of 4 units to compute" in found.stderr


def test_status(copied: Path) -> None:
    (first, *_) = sorted((copied / "scores").iterdir())
    flip(first, 60)
    found = facts("study", "status", copied)
    assert (found["study"], found["finished"], found["units"]) == ("small", 3, 4)
    assert found["models"][0] == {"name": "Cancer-Linear", "finished": 1, "units": 2}
    assert found["strange"] == [
        {"file": f"scores/{first.name}", "reason": "damaged: its content is not what its name says"}
    ]
    assert found["seconds"] > 0
    assert 0 < found["attribution_bytes"] < found["attribution_bytes_at_most"]


def test_verify(copied: Path) -> None:
    found = facts("verify", copied, "--sample", "100%")
    assert (found["passed"], found["units"], found["sampled"], found["different"]) == (True, 4, 4, [])
    assert found.items() <= json.loads((copied / "verified.json").read_text()).items()
    (first, *_) = sorted((copied / "scores").iterdir())
    first.unlink()
    found = facts("verify", copied, code=1)
    assert not found["passed"]
    assert found["different"] == ["1 of 4 units are missing; run the study to the end."]


def test_a_report(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verax.report.page.write_study_report", lambda study: study.store.folder / "report.html")
    assert facts("study", "report", copied) == {"study": "small", "report": str(copied / "report.html")}
