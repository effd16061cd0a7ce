"""Specs: those that are shipped, and what is said about those that are wrong."""

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from study.studies import LINEAR, TABLE_METHODS, content, images, spec, table
from verax.attribution import IntegratedGradients, LimeImage, Slic, grid
from verax.metrics import LocalPredictionChange
from verax.study.data_spec import AttributionsSpec, configuration, thinned
from verax.study.metrics import MetricsSpec, metrics_of
from verax.study.spec import SpecError, StudySpec, load_spec, parse_spec, shipped


def written(folder: Path, *data: dict[str, Any], **settings: Any) -> Path:
    path = folder / "own.toml"
    path.write_text(tomli_w.dumps(content(*data, **settings)))
    return path


def configurations(loaded: StudySpec) -> list[int]:
    kinds = {"heloc": "tabular", "isic": "image", "breast-cancer": "tabular", "digits": "image"}
    return [len(data.attributions.configurations(kinds[data.name])) for data in loaded.data for _ in data.models]  # type: ignore[arg-type]


def test_the_paper_is_shipped() -> None:
    assert list(shipped()) == ["demo", "paper-heloc", "paper-isic"]
    assert configurations(load_spec("paper-heloc")) == [775, 775]  # 1,550
    assert configurations(load_spec("paper-isic")) == [1598, 1598]  # 3,196
    assert [data.part for name in ("paper-heloc", "paper-isic") for data in load_spec(name).data] == ["validation"] * 2
    heloc = load_spec("paper-heloc")
    assert (heloc.metrics.steps, heloc.metrics.samples, heloc.metrics.sigma) == (20, 1280, 0.2)
    assert heloc.uncertainty.sizes == (20, 40, 80, 160, 320, 640)
    assert [load_spec(name).uncertainty.every for name in ("paper-heloc", "paper-isic")] == [1, 1]  # all of LIME


def test_shipped_studies_answer_under_readings_without_dpcs_flaw() -> None:
    for name in shipped():
        metrics = metrics_of(load_spec(name).metrics)
        first = ["pc", "dpc_magnitude", "dpc_signed", "dpc_literal"]
        assert [*metrics][:4] == first
        assert {column: metrics[column] for column in first} == {
            column: metric for column, metric in metrics_of(MetricsSpec()).items() if column in first
        }
        assert metrics["infidelity"].draws == metrics["effect_correlation"].draws  # type: ignore[attr-defined]
        assert metrics["lpc"] == LocalPredictionChange()
    isic = metrics_of(load_spec("paper-isic").metrics)
    assert isic.limits == {column: 3072 for column in isic if column not in first}


def test_the_demo_has_every_method_of_its_data() -> None:
    demo = load_spec("demo")
    assert len([model for data in demo.data for model in data.models]) == 6
    for data, kind in zip(demo.data, ("tabular", "image", "tabular"), strict=True):
        have = {type(one) for one in data.attributions.configurations(kind)}  # type: ignore[arg-type]
        assert have == {type(one) for one in grid(kind)}  # type: ignore[arg-type]


def test_a_spec_survives_its_own_form() -> None:
    for name in shipped():
        loaded = load_spec(name)
        assert parse_spec(tomllib.loads(tomli_w.dumps(loaded.form())), name).form() == loaded.form()
    own = spec(table(others=[{"method": "DeepLiftSHAP", "background": 0.5}]), images())
    assert parse_spec(tomllib.loads(tomli_w.dumps(own.form())), "own").form() == own.form()


def test_whole_numbers_serve_as_numbers(tmp_path: Path) -> None:
    own = load_spec(written(tmp_path, metrics={"sigma": 1}, cache_gib=3))
    assert (own.metrics.sigma, own.cache_gib) == (1.0, 3.0)


def test_others_become_configurations() -> None:
    settings = {
        "method": "LimeImage",
        "segmenter": {"method": "Slic", "n_segments": 8},
        "pixel_mean": [0.5],
        "pixel_std": [1.0],
    }
    (one,) = spec(images([settings])).data[0].attributions.configurations("image")
    assert one == LimeImage(segmenter=Slic(8), pixel_mean=(0.5,), pixel_std=(1.0,))


def test_grid_and_others_are_joined_and_each_counts_once() -> None:
    twice = [{"method": "Gradient"}, {"method": "IntegratedGradients", "points": 3}] * 2
    found = AttributionsSpec(every=100, others=tuple(twice)).configurations("tabular")
    assert len(found) == len(set(found)) == 46 + 8 + 1
    assert found[-1] == IntegratedGradients(points=3)
    assert found[:-1] == thinned(grid("tabular"), 100)


def test_what_the_paper_leaves_open_is_chosen_in_the_spec() -> None:
    scaled = AttributionsSpec(scale_kernel=True, random_seeds=50).configurations("tabular")
    assert scaled == grid("tabular", scale_kernel=True, random_seeds=50)
    by_inputs = AttributionsSpec(lime_distance="inputs", every=7).configurations("image")
    assert by_inputs == thinned(grid("image", distance="inputs"), 7)


def test_only_lime_is_thinned_and_its_first_one_stays() -> None:
    whole, thin = grid("image"), thinned(grid("image"), 7)
    lime = [one for one in whole if isinstance(one, LimeImage)]
    assert [one for one in thin if isinstance(one, LimeImage)] == lime[::7]
    assert [one for one in thin if not isinstance(one, LimeImage)] == [
        one for one in whole if not isinstance(one, LimeImage)
    ]


def at(*path: str | int, to: Any) -> dict[str, Any]:
    """A spec with one value changed, or taken out where it is to be None."""
    found = copy.deepcopy(content(table(), images()))
    place: Any = found
    for part in path[:-1]:
        place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return found


WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown key": (at("speed", to=1), ["speed", "no such key", "cache_gib, data, examples, metrics, name"]),
    "unknown key of data": (at("data", 0, "rows", to=1), ["data.0.rows", "no such key", "attributions, background"]),
    "unknown key of a model": (at("data", 1, "models", 0, "depth", to=1), ["data.1.models.0.depth", "architecture"]),
    "unknown key of attributions": (
        at("data", 0, "attributions", "each", to=1),
        ["each", "every, explained, grid, lime_distance, others"],
    ),
    "unknown key of metrics": (at("metrics", "draws", to=1), ["metrics.draws", "infidelity, list, samples, seed"]),
    "unknown key of uncertainty": (at("uncertainty", "x", to=1), ["uncertainty.x", "independent, inputs"]),
    "no name": (at("name", to=None), ["name", "required"]),
    "no data": (at("data", to=None), ["data", "required"]),
    "empty data": (at("data", to=[]), ["data", "at least one"]),
    "data that is no list": (at("data", to="heloc"), ["data", "list of tables"]),
    "no models": (at("data", 0, "models", to=None), ["data.0.models", "required"]),
    "empty models": (at("data", 0, "models", to=[]), ["data.0.models", "at least one"]),
    "unknown data": (
        at("data", 0, "name", to="mnist"),
        ["data.0.name", "heloc, isic", "got 'mnist'", "--import MODULE"],
    ),
    "unknown part": (at("data", 0, "part", to="all"), ["data.0.part", "'validation'", "'test'", "'all'"]),
    "unknown model": (at("data", 0, "models", 0, "architecture", to="x"), ["architecture", "'mlp'", "'inception'"]),
    "odd model name": (at("data", 0, "models", 0, "name", to="a/b"), ["data.0.models.0.name", "'a/b'"]),
    "two sources": (
        at("data", 0, "models", 0, "path", to="x.onnx"),
        ["data.0.models.0", "either architecture", "or path"],
    ),
    "an unknown recipe": (
        at("data", 0, "models", 0, "recipe", to="loose"),
        ["data.0.models.0.recipe", "'less-regularised' or 'balanced'", "'loose'"],
    ),
    "a recipe for another model": (
        at("data", 0, "models", 0, "recipe", to="less-regularised"),
        ["data.0.models.0", "less-regularised is for mlp, got linear"],
    ),
    "a recipe for a file": (
        at("data", 0, "models", 0, to={"name": "m", "path": "m.onnx", "recipe": "balanced"}),
        ["data.0.models.0", "recipe", "expected architecture beside it"],
    ),
    "a distance between nothing": (
        at("data", 1, "attributions", "lime_distance", to="pixels"),
        ["data.1.attributions.lime_distance", "'masks' or 'inputs'", "'pixels'"],
    ),
    "no random attributions": (at("data", 0, "attributions", "random_seeds", to=0), ["random_seeds", "got 0"]),
    "a pickle": (at("data", 0, "models", 0, "file", to="x.pkl"), ["data.0.models.0", ".onnx, .skops", "can run code"]),
    "a label for digits": (at("data", 1, "label", to="x"), ["data.1", "label: digits says itself"]),
    "another task": (at("data", 0, "task", to="ranking"), ["data.0.task", "'auto', 'classification' or 'regression'"]),
    "no source": (at("data", 0, "models", 0, "architecture", to=None), ["data.0.models.0", "either architecture"]),
    "a name twice": (at("data", 1, "models", 0, "name", to="Cancer-Linear"), ["Cancer-Linear", "more than once"]),
    "a path for digits": (at("data", 1, "path", to="x"), ["data.1", "path: digits takes none"]),
    "limit 0": (at("data", 0, "limit", to=0), ["data.0.limit", "greater than or equal to 1", "got 0"]),
    "limit as text": (at("data", 0, "limit", to="12"), ["data.0.limit", "integer", "'12'"]),
    "limit as number": (at("data", 0, "limit", to=1.5), ["data.0.limit", "integer", "1.5"]),
    "chunk as truth": (at("data", 0, "chunk", to=True), ["data.0.chunk", "integer", "True"]),
    "grid as text": (at("data", 0, "attributions", "grid", to="no"), ["data.0.attributions.grid", "boolean", "'no'"]),
    "every 0": (at("data", 0, "attributions", "every", to=0), ["data.0.attributions.every", "got 0"]),
    "steps 0": (at("metrics", "steps", to=0), ["metrics.steps", "got 0"]),
    "sigma 0": (at("metrics", "sigma", to=0.0), ["metrics.sigma", "greater than 0"]),
    "sigma without end": (at("metrics", "sigma", to=float("inf")), ["metrics.sigma", "finite"]),
    "a cache without end": (at("cache_gib", to=float("inf")), ["cache_gib", "finite"]),
    "a cache that is no number": (at("cache_gib", to=float("nan")), ["cache_gib", "finite"]),
    "less than no cache": (at("cache_gib", to=-1.0), ["cache_gib", "-1.0"]),
    "more resampled than drawn": (at("uncertainty", "sizes", to=[17]), ["uncertainty.sizes", "uncertainty.samples"]),
    "nothing resampled": (at("uncertainty", "sizes", to=[]), ["uncertainty.sizes", "at least one"]),
    "sizes as text": (at("uncertainty", "sizes", to="20"), ["uncertainty.sizes", "'20'"]),
    "one repetition": (at("uncertainty", "independent", to=1), ["uncertainty.independent", "0 or at least 2"]),
    "one resample": (at("uncertainty", "resamples", to=1), ["uncertainty.resamples", "2"]),
    "others as text": (at("data", 0, "attributions", "others", to="x"), ["others", "list of tables"]),
    "another as text": (
        at("data", 0, "attributions", "others", to=["x"]),
        ["others", "method: expected", "'x'"],
    ),
    "neither grid nor others": (at("data", 0, "attributions", to={"grid": False}), ["data.0", "got none"]),
}


def other(**settings: Any) -> dict[str, Any]:
    return at("data", 0, "attributions", "others", to=[settings])


WRONG |= {
    "no method": (other(points=4), ["others", "method: expected ", "None"]),
    "unknown method": (other(method="Grad"), ["others", "method: expected ", "'Grad'"]),
    "a method that is a list": (other(method=["Gradient"]), ["others"]),
    "unknown setting": (other(method="SmoothGrad", noise=1), ["noise", "SmoothGrad has", "sigma, samples, seed"]),
    "a setting of none": (other(method="Gradient", x=1), ["x", "Gradient has no such setting", "none"]),
    "wrong setting": (other(method="SmoothGrad", sigma=-1.0), ["sigma: expected a positive", "-1.0"]),
    "images only": (other(method="LimeImage"), ["data.0", "LimeImage is not for tabular data"]),
}


@pytest.mark.parametrize(("wrong", "words"), WRONG.values(), ids=WRONG.keys())
def test_an_error_names_file_key_and_what_is_allowed(wrong: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(tomli_w.dumps(wrong))
    with pytest.raises(SpecError) as found:
        load_spec(path)
    message = str(found.value)
    assert message.startswith(f"{path}: ")
    for word in words:
        assert word in message, message
    assert "\n" not in message


TYPES = {
    "a word for a number": (other(method="SmoothGrad", samples="many"), ["samples", "'many'"]),
    "unknown baseline": (other(method="IntegratedGradients", baseline="usual"), ["baseline", "median", "'usual'"]),
    "a list for a word": (other(method="IntegratedGradients", baseline=["min"]), ["baseline", "median"]),
}


@pytest.mark.parametrize(("wrong", "words"), TYPES.values(), ids=TYPES.keys())
def test_a_setting_of_another_type_is_named(wrong: dict[str, Any], words: list[str]) -> None:
    """Here type checks, which only tests have, speak first, at more length."""
    with pytest.raises(SpecError, match=r"^own\.toml: data\.0\.attributions\.others\.0: ") as found:
        parse_spec(wrong, "own.toml")
    for word in words:
        assert word in str(found.value)


SEGMENTERS = {
    "no table": "Slic",
    "unknown": {"method": "Felzenszwalb"},
    "unknown setting": {"method": "Slic", "count": 8},
    "wrong setting": {"method": "Slic", "n_segments": 0},
}


@pytest.mark.parametrize("segmenter", SEGMENTERS.values(), ids=SEGMENTERS.keys())
def test_a_wrong_segmenter_is_refused(segmenter: Any) -> None:
    with pytest.raises(SpecError, match=r"own\.toml: data\.0\.attributions\.others\.0: (segmenter|count|n_segments): "):
        parse_spec(content(images([{"method": "LimeImage", "segmenter": segmenter}])), "own.toml")


def test_every_error_has_a_line() -> None:
    wrong = content(table(limit=0), metrics={"steps": 0, "draws": 3})
    with pytest.raises(SpecError) as found:
        parse_spec(wrong, "own.toml")
    lines = str(found.value).splitlines()
    assert len(lines) == 3
    assert all(line.startswith("own.toml: ") for line in lines)


def test_every_entry_of_a_list_has_a_line() -> None:
    wrong = content(
        table(others=[{"method": "Foo"}, {"method": "Gradient"}, {"method": "KernelShap", "samplez": 3, "sed": 1}]),
        trust={"trials": ["lucky", "consistency", "luckier"]},
    )
    with pytest.raises(SpecError) as found:
        parse_spec(wrong, "own.toml")
    assert [line.split(": ")[1:3] for line in str(found.value).splitlines()] == [
        ["data.0.attributions.others.0", "method"],
        ["data.0.attributions.others.2", "samplez, sed"],
        ["trust.trials.0", "trial"],
        ["trust.trials.2", "trial"],
    ]


def test_all_methods_for_other_data_are_named() -> None:
    both = [{"method": "Gradient"}, {"method": "LimeImage"}, {"method": "Edges"}]
    with pytest.raises(SpecError, match="LimeImage and Edges are not for tabular data"):
        parse_spec(content(table(others=both)), "own.toml")


FILES = {
    "no TOML": (b"name = ", "no TOML"),
    "no text": (b"\xff\xfe\x00", "cannot be read"),
    "empty": (b"", "name: field required"),
}


@pytest.mark.parametrize(("text", "message"), FILES.values(), ids=FILES.keys())
def test_a_file_that_is_no_spec_is_refused(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(text)
    with pytest.raises(SpecError, match=message) as found:
        load_spec(path)
    assert str(path) in str(found.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.toml: cannot be read"):
        load_spec(tmp_path / "none.toml")
    with pytest.raises(SpecError, match=r"SPEC: expected demo, paper-heloc, paper-isic or a path that ends in .toml"):
        load_spec("paper")


def test_the_command_line_places_data_and_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    heloc = load_spec("paper-heloc", data="heloc.csv", limit=7).data[0]
    assert (heloc.path, heloc.limit) == (str(tmp_path / "heloc.csv"), 7)
    both = load_spec(written(tmp_path, table(), {**images(), "name": "isic"}), data="folder", limit=2).data
    assert [one.path for one in both] == [None, str(tmp_path / "folder")]
    assert [one.limit for one in both] == [2, 2]


def test_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    for given, found in (("~/own.npz", "/home/somebody/own.npz"), ("own.npz", str(tmp_path / "own.npz"))):
        own = load_spec(written(tmp_path, {**table(), "name": "file", "path": given}))
        assert own.data[0].path == found


@pytest.mark.parametrize("count", [0, 2])
def test_data_must_have_one_place_to_go(count: int, tmp_path: Path) -> None:
    takers = [{**table({**LINEAR, "name": f"m{number}"}), "name": "heloc"} for number in range(count)]
    path = written(tmp_path, images(), *takers)
    with pytest.raises(SpecError, match=f"--data: the study has {count} data sets that take a path"):
        load_spec(path, data="x")


def test_configurations_refuse_what_is_no_table() -> None:
    for settings in (None, 3, [], {"method": None}):
        with pytest.raises(ValueError, match="method: expected"):
            configuration(settings)
    for settings in TABLE_METHODS:
        assert type(configuration(settings)).__name__ == settings["method"]
