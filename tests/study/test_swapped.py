"""Whole files under another's name: found, named, set aside and made anew, whatever kind of file they are."""

import shutil
from itertools import permutations
from pathlib import Path

import pytest

from study.studies import HERE, ran, same, scores, spec, table, whole
from verax.core.files import Sealed
from verax.data.catalogue import load_breast_cancer
from verax.models import save
from verax.paper.models import Linear
from verax.scoring.model_files.saved import ModelFileError
from verax.study.models import obtain_model
from verax.study.study import open_study
from verax.study.verify import verify


def seal(path: Path) -> str:
    return path.name.rsplit(".", 2)[1]


def swap(one: Path, other: Path) -> None:
    """Put each file under the other's name, with its own seal, as a careless copy or a forger would."""
    names = [f"{Sealed.stem(mine)}.{seal(its)}{mine.suffix}" for mine, its in ((one, other), (other, one))]
    contents = other.read_bytes(), one.read_bytes()
    one.unlink()
    other.unlink()
    for name, content in zip(names, contents, strict=True):
        (one.parent / name).write_bytes(content)
        assert Sealed.read(one.parent / name) == content


@pytest.mark.parametrize("kind", ["scores", "uncertainty", "examples"])
def test_swapped_results_are_made_anew(
    kind: str, copied: Path, finished: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = sorted((copied / kind).iterdir())
    swap(files[0], files[-1])
    strange = open_study(copied).store.contents(kind).strange
    assert len(strange) == 2
    assert all("not what its name says: inside it is " in reason for _, reason in strange)
    found, lines = ran(whole(), copied)
    said = [*lines, *capfd.readouterr().err.splitlines()]
    assert found.computed == (2 if kind == "scores" else 0)
    assert sum(f"{kind}/" in line and "not what its name says" in line for line in said) == 2
    assert len(list((copied / "set-aside").iterdir())) == 2
    assert same(scores(copied), scores(finished))
    if kind != "scores":
        assert {path.name: path.read_bytes() for path in (copied / kind).iterdir()} == {
            path.name: path.read_bytes() for path in (finished / kind).iterdir()
        }


def test_every_swapped_pair_of_cached_attributions_is_found(copied: Path, finished: Path) -> None:
    """Those of one shape are the dangerous ones: nothing else tells them apart."""
    shutil.rmtree(copied / "scores")
    files = sorted((copied / "attributions").iterdir())
    sizes = [path.stat().st_size for path in files]
    alike = [path for path, size in zip(files, sizes, strict=True) if sizes.count(size) > 1]
    for one, other in zip(alike[::2], alike[1::2], strict=False):
        swap(one, other)
    _, lines = ran(whole(), copied)
    assert sum(line.startswith("attributions/") and "not what its name says" in line for line in lines) >= 8
    assert same(scores(copied), scores(finished))


def test_the_cache_itself_refuses_what_is_under_anothers_name(copied: Path) -> None:
    """Also where the files are swapped after the run has looked through the folder."""
    cache = open_study(copied).cache
    files = sorted((copied / "attributions").iterdir())
    shapes = {path: path.stat().st_size for path in files}
    one, other = next((a, b) for a, b in permutations(files, 2) if shapes[a] == shapes[b])
    swap(one, other)
    key = str(Sealed.stem(one))
    assert cache.get(key, (1,)) is None
    assert not list((copied / "attributions").glob(f"{key}.*"))


def test_verification_names_swapped_files(copied: Path) -> None:
    files = sorted((copied / "scores").iterdir())
    swap(files[0], files[1])
    verdict = verify(open_study(copied), 0.01, HERE)
    assert sum("not what its name says" in line for line in verdict.different) == 2
    assert "2 of 8 units are missing; run the study to the end." in verdict.different


def test_a_model_under_anothers_name_is_trained_anew(copied: Path, finished: Path) -> None:
    for suffix in (".safetensors", ".json"):
        shutil.copy(copied / "models" / f"Cancer-MLP{suffix}", copied / "models" / f"Cancer-Linear{suffix}")
    found, lines = ran(whole(), copied)
    assert found.computed == 0
    assert "Cancer-Linear: the model kept here is not the one that the spec asks for." in lines[0]
    for path in (finished / "models").iterdir():
        assert (copied / "models" / path.name).read_bytes() == path.read_bytes()
    assert same(scores(copied), scores(finished))


def test_a_model_of_another_recipe_is_not_the_one_that_is_asked_for(finished: Path) -> None:
    model = open_study(finished).models["Cancer-Linear"]
    kept = finished / "models" / "Cancer-Linear.safetensors"
    assert obtain_model(model.spec, model.dataset, kept).info["hyperparameters"]["class_weight"] is False
    with pytest.raises(ModelFileError, match="not the one that the spec asks for"):
        obtain_model(model.spec.model_copy(update={"recipe": "balanced"}), model.dataset, kept)


def test_swapped_copies_of_ones_own_models_are_found(trained: Path, tmp_path: Path) -> None:
    """Two models of one kind, whose own files are gone: only what the copies say tells them apart."""
    models = []
    for number in range(2):
        data, path = load_breast_cancer(), tmp_path / f"own-{number}.safetensors"
        settings = {"dataset": data, "hyperparameters": {}, "metrics": {}, "seed": 0}
        save(path, Linear(30).build(seed=number), Linear(30), **settings)
        models.append({"name": f"Own-{number}", "file": str(path)})
    own = spec(table(*models, others=[{"method": "Gradient"}]), examples=0, uncertainty={"inputs": 0})
    ran(own, trained)
    for path in tmp_path.glob("own-*"):
        path.rename(path.with_name(f"gone-{path.name}"))
    kept = trained / "models"
    for suffix in (".safetensors", ".json"):
        (kept / f"Own-0{suffix}").rename(kept / "third")
        (kept / f"Own-1{suffix}").rename(kept / f"Own-0{suffix}")
        (kept / "third").rename(kept / f"Own-1{suffix}")
    with pytest.raises(FileNotFoundError, match="own-0"):
        ran(own, trained)
    for path in tmp_path.glob("gone-*"):
        path.rename(path.with_name(path.name.removeprefix("gone-")))
    found, lines = ran(own, trained)
    assert found.computed == 0
    assert any("Own-1: the model kept here is" in line for line in lines)
