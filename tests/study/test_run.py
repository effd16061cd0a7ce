"""Running a study: going on, growing, and keeping out whatever does not belong to it."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from study.studies import (
    DIGITS,
    LINEAR,
    MLP,
    content,
    images,
    ran,
    same,
    scores,
    spec,
    stamps,
    table,
    whole,
)
from verax.scoring.model_files.saved import load
from verax.study.explained_models import Machine
from verax.study.run import run_study
from verax.study.spec import StudySpec, parse_spec
from verax.study.store import StoreError
from verax.study.study import open_study

FEW = [{"method": name} for name in ("Gradient", "SmoothGrad", "DeepLiftSHAP", "LimeTabular", "Random")]


def test_a_study_has_all_its_files(finished: Path) -> None:
    counts = {name: len(list((finished / name).iterdir())) for name in ("scores", "uncertainty", "examples", "models")}
    assert counts == {"scores": 8, "uncertainty": 3, "examples": 3, "models": 6}
    assert not list(finished.rglob("*.part"))
    assert not (finished / "set-aside").exists()
    table_of = scores(finished)
    assert table_of.height == 2 * 15 * 10 + 8 * 3
    assert table_of.select("model", "configuration", "input").is_unique().all()
    assert table_of.null_count().sum_horizontal().item() == 0


def test_run_again_it_computes_nothing(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {
        path: path.stat().st_mtime_ns
        for kind in ("scores", "uncertainty", "examples", "models")
        for path in (copied / kind).iterdir()
    }

    def never(*arguments: Any) -> Any:
        raise AssertionError("nothing is to be computed")

    for name in ("engine.compute", "uncertainty.uncertainty_table", "run.make_examples"):
        monkeypatch.setattr(f"verax.study.{name}", never)
    found, lines = ran(whole(), copied)
    assert (found.computed, lines) == (0, [])
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_growing_keeps_whole_units(trained: Path, tmp_path: Path) -> None:
    """Ten inputs in units of four leave a unit of two, which a larger study cannot use."""

    def of(limit: int) -> StudySpec:
        return spec(table(others=FEW, limit=limit), examples=0, uncertainty={"inputs": 0})

    assert ran(of(10), trained)[0].computed == 3
    kept = {name: stamp for name, stamp in stamps(trained).items() if ".000008-" not in name}
    found, lines = ran(of(14), trained)
    assert found.computed == 2
    assert kept.items() <= stamps(trained).items()
    (line,) = lines
    assert line.startswith("scores/Cancer-Linear.000008-000010.")
    assert "not part of this study; moved to set-aside/" in line
    fresh = tmp_path / "fresh"
    (fresh / "models").mkdir(parents=True)
    for path in (trained / "models").iterdir():
        (fresh / "models" / path.name).write_bytes(path.read_bytes())
    ran(of(14), fresh)
    assert same(scores(trained), scores(fresh))
    assert ran(of(16), trained)[0].computed == 1


def test_without_a_limit_all_rows_of_the_part_are_explained(trained: Path) -> None:
    few = [{"method": "Gradient"}]
    own = spec(table(others=few, limit=5, chunk=64, part="test"), metrics={"infidelity": False}, examples=0)
    assert ran(own, trained)[0].computed == 1
    data = own.data[0].model_copy(update={"limit": None})
    found, _ = ran(own.model_copy(update={"data": (data,)}), trained)
    assert found.computed == 2
    (explained,) = found.study.models.values()
    assert scores(trained)["input"].sort().to_list() == explained.dataset.split.test.tolist()


def changed(**settings: Any) -> StudySpec:
    return parse_spec({**content(table(LINEAR, MLP), images()), **settings}, "small.toml")


OTHER_STUDIES = {
    "name": (changed(name="large"), "name: expected 'small', got 'large'"),
    "metrics": (changed(metrics={"samples": 17}), "metrics.samples: expected 16, got 17"),
    "sigma": (changed(metrics={"samples": 16, "sigma": 0.3}), "metrics.sigma: expected 0.2, got 0.3"),
    "examples": (changed(examples=3), "examples: expected 2, got 3"),
    "part": (changed(data=[table(LINEAR, MLP, part="test"), images()]), "data.0.part: expected 'validation'"),
    "seed": (changed(data=[table(LINEAR, MLP, seed=1), images()]), "data.0.seed: expected 0, got 1"),
    "chunk": (changed(data=[table(LINEAR, MLP, chunk=5), images()]), "data.0.chunk: expected 4, got 5"),
    "fewer models": (changed(data=[table(LINEAR), images()]), "data.0.models.1.architecture: expected 'mlp', got None"),
    "fewer methods": (changed(data=[table(LINEAR, MLP), images([{"method": "Gradient"}])]), "data.1.attributions"),
    "other order": (changed(data=[images(), table(LINEAR, MLP)]), "data.0"),
}


@pytest.mark.parametrize(("other", "message"), OTHER_STUDIES.values(), ids=OTHER_STUDIES.keys())
def test_the_directory_of_another_study_is_refused(other: StudySpec, message: str, finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.name != ".lock"}
    with pytest.raises(StoreError, match="holds another study") as found:
        run_study(other, finished)
    assert message in str(found.value)
    assert "Choose another --out" in str(found.value)
    assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.name != ".lock"}


def test_a_study_may_grow_but_not_shrink(finished: Path) -> None:
    fewer = changed(data=[table(LINEAR, MLP, limit=3), images()])
    with pytest.raises(StoreError, match="may grow, not shrink"):
        run_study(fewer, finished)


def test_room_for_the_cache_and_batch_size_do_not_make_another_study(copied: Path) -> None:
    found, lines = ran(whole().model_copy(update={"cache_gib": 0.0}), copied, machine=Machine(batch_size=7))
    assert (found.computed, lines) == (0, [])


def test_results_do_not_depend_on_the_batch_size(trained: Path, finished: Path) -> None:
    ran(spec(), trained, machine=Machine(batch_size=7))
    wanted = scores(finished).filter(pl.col("model") == "Cancer-Linear")
    found = scores(trained)
    for name in ("input", "target", "configuration"):
        assert found[name].equals(wanted[name])
    for name in ("pc", "dpc_magnitude", "infidelity", "infidelity_baseline", "attribution_norm"):
        gap = (found[name] - wanted[name]).abs().max()
        assert isinstance(gap, float)
        assert gap < 1e-5, name


def test_results_do_not_depend_on_the_cache(trained: Path, finished: Path) -> None:
    ran(whole().model_copy(update={"cache_gib": 0.0}), trained)
    assert not (trained / "attributions").exists()
    assert same(scores(trained), scores(finished))
    for kind in ("uncertainty", "examples"):
        assert names(trained / kind) == names(finished / kind)  # a name holds the hash of the content


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_without_infidelity_it_has_no_columns(trained: Path) -> None:
    own = spec(metrics={"infidelity": False}, examples=0)
    deciding = 2 * 160 * 10  # draws of ten inputs, whatever the number of configurations
    ran(own, trained)
    found = scores(trained, seconds=True)
    assert not [name for name in found.columns if name.startswith("infidelity")]
    assert found["sampled_rows"].sum() == pytest.approx(deciding)
    assert not (trained / "uncertainty").exists()
    assert not (trained / "examples").exists()


def test_without_inputs_there_is_no_resampling_study(trained: Path) -> None:
    ran(spec(uncertainty={"inputs": 0}), trained)
    assert not (trained / "uncertainty").exists()


def test_two_runs_at_once_are_one_too_many(trained: Path, finished: Path) -> None:
    refused: list[str] = []

    def log(line: str) -> None:
        if "units to compute" in line:
            with pytest.raises(StoreError) as found:
                run_study(whole(), trained)
            refused.append(str(found.value))

    assert run_study(whole(), trained, log=log).computed == 8
    (message,) = refused
    assert message.startswith(f"{trained}: process ")
    assert "works on this study; wait for it, or use another --out" in message
    assert same(scores(trained), scores(finished))


def test_an_error_lets_go_of_the_lock(trained: Path) -> None:
    def log(line: str) -> None:
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        run_study(spec(), trained, log=log)
    assert not (trained / "scores").exists()
    assert ran(spec(), trained)[0].computed == 3


LEFT = [
    ".study.toml.0a1b2c3d.part",
    "models/.Cancer-Linear.safetensors.0a1b2c3d.part",
    "models/Cancer-Linear.checkpoint.123.part",
    "attributions/.0123.0a1b2c3d.part",
    "scores/.x.parquet.0a1b2c3d.part",
    "uncertainty/.x.parquet.0a1b2c3d.part",
    "examples/.x.safetensors.0a1b2c3d.part",
    "figures/.x.svg.0a1b2c3d.part",
]


def test_what_a_killed_run_left_half_written_is_removed(copied: Path) -> None:
    for name in LEFT:
        (copied / name).parent.mkdir(exist_ok=True)
        (copied / name).write_bytes(b"half")
    found, lines = ran(whole(), copied)
    assert (found.computed, lines) == (0, [])
    assert not list(copied.rglob("*.part"))
    assert not (copied / "set-aside").exists()


def test_a_trained_model_is_kept_only_if_the_spec_still_means_it(copied: Path) -> None:
    """Without ``study.toml`` nothing else says what the models are."""
    (copied / "study.toml").unlink()
    other = spec(table({**LINEAR, "seed": 1}), images())
    found, lines = ran(other, copied)
    assert any(
        line.startswith("models/Cancer-Linear.safetensors: Cancer-Linear: the model kept here") for line in lines
    )
    assert found.computed == 3  # those of the images are there
    assert not any(line.startswith("models/Digits") for line in lines)
    old, new = (load(copied / where / "Cancer-Linear.safetensors") for where in ("set-aside", "models"))
    assert (old.info["seed"], new.info["seed"]) == (0, 1)
    assert old.info["weights"] != new.info["weights"]


def test_a_model_of_another_split_is_trained_anew(copied: Path) -> None:
    (copied / "study.toml").unlink()
    _, lines = ran(spec(table(LINEAR, seed=5)), copied)
    assert any("was trained on data standardised in another way" in line for line in lines)
    assert "Cancer-Linear" in open_study(copied).models


def test_a_study_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no study here: there is no study.toml"):
        open_study(tmp_path)


def test_a_wrong_kind_of_model_is_refused_before_training(tmp_path: Path) -> None:
    for data, model, message in (
        (table, {**LINEAR, "architecture": "inception"}, "inception is for images; for the table breast-cancer use"),
        (images, {**DIGITS, "architecture": "mlp"}, "mlp is for tables; for the images of digits use linear"),
    ):
        own = spec({**data(), "models": [model]})
        with pytest.raises(ValueError, match=message):
            run_study(own, tmp_path / "study")
