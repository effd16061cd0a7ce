"""Studies of one's own: data from a file, models from a file, and the reasons for which they are refused."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from study.studies import IMAGE_METHODS, LINEAR, MLP, flip, ran, same, scores, spec, stamps, table
from verax.data.base import Dataset
from verax.data.file import load_file
from verax.models import load, save
from verax.paper.models import Linear
from verax.scoring.model_files.saved import ModelFileError
from verax.study.run import run_study
from verax.study.spec import StudySpec
from verax.study.store import StoreError
from verax.study.study import open_study

pytestmark = pytest.mark.usefixtures("quick_training")
COUNT = 60
CHANCE = np.random.default_rng(0)
TABLE = CHANCE.random((COUNT, 5))
LABELS = (TABLE @ np.arange(5) > 5).astype(int)
PIXELS = CHANCE.integers(0, 256, (COUNT, 1, 6, 6)).astype(np.uint8)


def data_file(folder: Path, inputs: Any = TABLE, name: str = "patients", **arrays: Any) -> Path:
    folder.mkdir(exist_ok=True)
    np.savez(folder / f"{name}.npz", inputs=inputs, labels=LABELS, **arrays)
    return folder / f"{name}.npz"


def own(path: Path, *models: dict[str, Any], **settings: Any) -> StudySpec:
    return spec(table(*models, name="file", path=str(path), **settings))


def model_file(path: Path, dataset: Dataset | None, features: int = 5, seed: int = 3, **metrics: Any) -> Path:
    architecture = Linear(features)
    module = architecture.build(seed)
    save(path, module, architecture, dataset=dataset, hyperparameters={}, metrics=metrics, seed=seed)
    return path


def from_file(path: Path) -> dict[str, Any]:
    return {"name": "Own", "file": str(path)}


@pytest.mark.usefixtures("real_report")
def test_a_whole_study_of_ones_own(tmp_path: Path) -> None:
    """A table from a file, one model trained on it and one that was trained before, up to the report."""
    names = {"feature_names": ["age", "dose", "weight", "height", "pulse"], "class_names": ["well", "ill"]}
    path = data_file(tmp_path, ids=[f"patient {row}" for row in range(COUNT)], **names)
    trained = model_file(tmp_path / "own.safetensors", load_file(path), auroc=0.8)
    study = own(path, LINEAR, from_file(trained))
    found, lines = ran(study, tmp_path / "study")
    assert found.computed == 6
    assert f"Own: from {trained}" in lines
    result = scores(tmp_path / "study")
    assert set(result["model"].unique()) == {"Cancer-Linear", "Own"}
    assert result["dataset"].unique().to_list() == ["patients"]
    assert result["input_id"].str.starts_with("patient ").all()
    assert found.report == tmp_path / "study" / "report.html"
    page = found.report.read_text()
    assert "patients" in page
    assert "The paper's claims" not in page  # they are about its models alone
    assert not (tmp_path / "study" / "claims.md").exists()
    assert list((tmp_path / "study" / "figures").glob("*.svg"))
    assert ran(study, tmp_path / "study")[0].computed == 0


def test_images_of_ones_own(tmp_path: Path) -> None:
    path = data_file(tmp_path, PIXELS)
    study = own(path, limit=2, background=16, others=IMAGE_METHODS)
    found, _ = ran(study, tmp_path / "study")
    result = scores(tmp_path / "study")
    assert result["modality"].unique().to_list() == ["image"]
    assert result.height == 2 * len(IMAGE_METHODS)
    assert result.null_count().sum_horizontal().item() == 0
    (explained,) = found.study.models.values()
    assert explained.inputs.shape == (2, 1, 6, 6)


def test_a_model_from_a_file_is_used_as_it_is(tmp_path: Path) -> None:
    path = data_file(tmp_path)
    trained = model_file(tmp_path / "own.safetensors", load_file(path), test={"auroc": 0.8, "accuracy": 0.7})
    found, _ = ran(own(path, from_file(trained)), tmp_path / "study")
    (explained,) = found.study.models.values()
    for one, other in zip(
        explained.module.state_dict().values(), load(trained).module.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other)
    assert explained.architecture == "linear"
    assert explained.metrics == {"test": {"auroc": 0.8, "accuracy": 0.7}}
    gradient = scores(tmp_path / "study").filter(pl.col("method") == "Gradient")
    assert gradient["attribution_norm"].n_unique() == 1  # of a linear model


def test_a_model_that_changed_is_noticed(tmp_path: Path) -> None:
    """The study keeps a copy, but not silently."""
    path = data_file(tmp_path)
    data = load_file(path)
    trained = model_file(tmp_path / "own.safetensors", data)
    study = own(path, from_file(trained))
    ran(study, tmp_path / "study")
    first = scores(tmp_path / "study")
    model_file(trained, data, seed=4)
    found, lines = ran(study, tmp_path / "study")
    assert found.computed == 3
    assert lines[0].startswith("models/Own.safetensors: Own: the model kept here is not the one that the spec asks for")
    assert not same(scores(tmp_path / "study"), first)
    assert load(tmp_path / "study" / "models" / "Own.safetensors").info["weights"] == load(trained).info["weights"]


def test_a_model_that_is_gone_is_kept(tmp_path: Path) -> None:
    path = data_file(tmp_path)
    trained = model_file(tmp_path / "own.safetensors", load_file(path))
    study = own(path, from_file(trained))
    ran(study, tmp_path / "study")
    flip(trained, -1)
    assert ran(study, tmp_path / "study")[0].computed == 0
    trained.unlink()
    found, lines = ran(study, tmp_path / "study")
    assert (found.computed, lines) == (0, [])
    flip(tmp_path / "study" / "models" / "Own.safetensors", -1)
    with pytest.raises(FileNotFoundError, match=r"own.safetensors"):  # now neither is there
        run_study(study, tmp_path / "study")


def test_a_model_of_another_split_is_refused(tmp_path: Path) -> None:
    path = data_file(tmp_path)
    trained = model_file(tmp_path / "own.safetensors", load_file(path, seed=1))
    with pytest.raises(ModelFileError, match="Own: was trained on data standardised in another way") as found:
        run_study(own(path, from_file(trained)), tmp_path / "study")
    assert "patients with split seed 0; train it on this split, or give the seed of its split" in str(found.value)
    assert not (tmp_path / "study" / "models" / "Own.safetensors").exists()
    assert ran(own(path, from_file(trained), seed=1), tmp_path / "other")[0].computed == 3


def test_a_model_of_other_data_is_refused(tmp_path: Path) -> None:
    path = data_file(tmp_path)
    other = load_file(data_file(tmp_path / "other", TABLE[:, :4]))
    with pytest.raises(ModelFileError, match="standardised in another way"):
        run_study(own(path, from_file(model_file(tmp_path / "own.safetensors", other, 4))), tmp_path / "study")


def test_a_model_without_its_data_is_refused(tmp_path: Path) -> None:
    path = data_file(tmp_path)
    trained = model_file(tmp_path / "own.safetensors", None)
    with pytest.raises(ModelFileError, match="Own: was saved without its data"):
        run_study(own(path, from_file(trained)), tmp_path / "study")


def test_a_damaged_or_missing_model_is_named(tmp_path: Path) -> None:
    path = data_file(tmp_path)
    trained = model_file(tmp_path / "own.safetensors", load_file(path))
    flip(trained, -1)
    with pytest.raises(ModelFileError, match=r"own.safetensors"):
        run_study(own(path, from_file(trained)), tmp_path / "study")
    with pytest.raises(FileNotFoundError, match=r"none.safetensors"):
        run_study(own(path, from_file(tmp_path / "none.safetensors")), tmp_path / "study")
    with pytest.raises(ValueError, match=r"ends in \.safetensors"):
        run_study(own(path, from_file(tmp_path / "model.pt")), tmp_path / "study")


def test_data_may_be_moved(tmp_path: Path) -> None:
    path = data_file(tmp_path)
    ran(own(path), tmp_path / "study")
    before = stamps(tmp_path / "study")
    moved = tmp_path / "elsewhere" / path.name
    moved.parent.mkdir()
    shutil.move(path, moved)
    with pytest.raises(ValueError, match=r"patients.npz"):
        open_study(tmp_path / "study")
    found, lines = ran(own(moved), tmp_path / "study")
    (warning,) = lines  # there is nothing to learn in these data
    assert (found.computed, warning[:9]) == (0, "WARNING: ")
    assert stamps(tmp_path / "study") == before
    open_study(tmp_path / "study")


def test_data_that_changed_are_noticed(tmp_path: Path) -> None:
    """Whoever opens the study is told; whoever runs it gets a model of the new data, and new results."""
    path = data_file(tmp_path)
    found, _ = ran(own(path), tmp_path / "study")
    (explained,) = found.study.models.values()
    changed = TABLE.copy()
    changed[explained.rows[5], 2] += 0.25
    data_file(tmp_path, changed)
    with pytest.raises(StoreError, match="patients: the data are not those of the study; fingerprint differs"):
        open_study(tmp_path / "study")
    again, lines = ran(own(path), tmp_path / "study")
    assert any("the model kept here is not the one that the spec asks for" in line for line in lines)
    assert again.computed >= 1
    fresh, _ = ran(own(path), tmp_path / "fresh")
    assert fresh.computed == 3
    assert same(scores(tmp_path / "study"), scores(tmp_path / "fresh"))


def test_labels_that_changed_are_noticed(tmp_path: Path) -> None:
    """Inputs and standardisation are the same, but the model learnt something else."""
    path = data_file(tmp_path)
    ran(own(path), tmp_path / "study")
    np.savez(path, inputs=TABLE, labels=1 - LABELS)
    again, _ = ran(own(path), tmp_path / "study")
    assert again.computed == 3


@pytest.mark.parametrize("name", ["file", "isic"])
def test_a_path_is_needed(name: str, tmp_path: Path) -> None:
    data = {**table(), "name": name, "attributions": {"grid": False, "others": [{"method": "Gradient"}]}}
    with pytest.raises(ValueError, match=f"path: {name} needs one; pass --data PATH or write it into the spec"):
        run_study(spec(data), tmp_path / "study")


def test_methods_for_other_data_are_refused_before_training(tmp_path: Path) -> None:
    path = data_file(tmp_path, PIXELS)
    with pytest.raises(ValueError, match="LimeTabular is not for image data"):
        run_study(own(path), tmp_path / "study")
    assert not (tmp_path / "study" / "models").exists()


def test_a_part_without_rows_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "few.npz", inputs=TABLE[:2], labels=[0, 1])
    with pytest.raises(ValueError, match="data: few has no validation rows"):
        run_study(own(tmp_path / "few.npz"), tmp_path / "study")


def test_two_data_sets_of_ones_own(tmp_path: Path) -> None:
    one, other = data_file(tmp_path), data_file(tmp_path / "other", TABLE[:, ::-1], name="controls")
    both = spec(
        table(LINEAR, name="file", path=str(one), limit=4),
        table(MLP, name="file", path=str(other), limit=4),
        examples=0,
    )
    assert ran(both, tmp_path / "study")[0].computed == 2
    assert set(scores(tmp_path / "study")["dataset"].unique()) == {"patients", "controls"}
