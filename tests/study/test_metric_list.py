"""The list of metrics in a spec: what it means, what is refused, and that a frozen one means the same for ever."""

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest
import tomli_w

import verax
from study.studies import HERE, ran, spec, table
from verax.metrics import (
    DirectedPredictionChange,
    EffectCorrelation,
    Infidelity,
    LocalPredictionChange,
    PredictionChange,
    SensitivityN,
)
from verax.metrics.base import METRICS, SampledMetric
from verax.perturbation.sampled import Draws, Effects
from verax.problem.replacement import Toward
from verax.report.answers import one_line
from verax.report.view import View
from verax.study.metrics import MetricsSpec, metrics_of, written
from verax.study.plan import forecast
from verax.study.results import read_results
from verax.study.spec import SpecError, parse_spec
from verax.study.store import Store, read_facts
from verax.study.study import Study, open_study
from verax.study.summary import configurations
from verax.study.tables import matrix
from verax.study.verify import verify


@pytest.fixture
def own_metric(monkeypatch: pytest.MonkeyPatch) -> type[SampledMetric]:
    """A metric with settings that the table ``[metrics]`` has keys for; forgotten after the test."""
    monkeypatch.setattr(METRICS, "_known", dict(METRICS._known))

    @dataclass(frozen=True)
    class Shift(SampledMetric):
        samples: int = 100
        subset: int | None = 3
        sigma: float | None = None
        name: ClassVar[str] = "shift"
        higher_is_better: ClassVar[bool] = False
        kind: ClassVar[Any] = "local"

        @property
        def draws(self) -> Draws:
            return Draws(samples=self.samples)

        def reduce(self, effects: Effects) -> Any:
            return (effects.predicted - effects.actual).mean(-1)

    return Shift


def test_without_a_list_it_is_the_papers_and_those_that_decide() -> None:
    deciding = {
        "effect_correlation": EffectCorrelation(samples=160),
        "effect_correlation_baseline": EffectCorrelation(samples=160, perturbation="baseline"),
    }
    assert metrics_of(MetricsSpec(steps=7, samples=9, sigma=0.5, subset=2, seed=3)) == {
        "pc": PredictionChange(steps=7),
        "dpc_magnitude": DirectedPredictionChange("magnitude", 7),
        "dpc_signed": DirectedPredictionChange("signed", 7),
        "dpc_literal": DirectedPredictionChange("literal", 7),
        "infidelity": Infidelity(0.5, 2, 9, seed=3),
        "infidelity_baseline": Infidelity(0.5, 2, 9, seed=3, perturbation="baseline"),
        **deciding,
    }
    guided = ["pc", "dpc_magnitude", "dpc_signed", "dpc_literal"]
    assert list(metrics_of(MetricsSpec(infidelity=False))) == [*guided, *deciding]


def test_keys_of_the_table_are_for_metrics_that_have_them() -> None:
    listed = ["pc", {"metric": "dpc", "steps": 4}, {"metric": "sensitivity_n", "sizes": [1, 2], "as": "sums"}]
    assert metrics_of(MetricsSpec(list=listed, steps=9, seed=5)) == {
        "pc": PredictionChange(steps=9),
        "dpc": DirectedPredictionChange(steps=4),
        "sums": SensitivityN((1, 2), seed=5),
    }


def test_an_own_metric_keeps_its_defaults_unless_the_spec_speaks(own_metric: type[SampledMetric]) -> None:
    assert metrics_of(MetricsSpec(list=["shift"], steps=3))["shift"] == own_metric()
    assert metrics_of(MetricsSpec(list=["shift"], samples=7))["shift"] == own_metric(samples=7)  # type: ignore[call-arg]


def test_a_frozen_list_does_not_depend_on_defaults(
    own_metric: type[SampledMetric], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither on those of the table, which a frozen spec says in full, nor on those of the metric."""
    listed = ["pc", "infidelity", {"metric": "shift", "none": ["subset"]}]
    own = spec(metrics={"list": listed})
    assert metrics_of(own.metrics)["shift"].subset is None  # type: ignore[attr-defined]
    frozen = tomllib.loads(tomli_w.dumps(own.form()))
    assert frozen["metrics"]["samples"] == 640
    monkeypatch.setattr(Infidelity, "__init__", lambda self, **settings: self.__dict__.update(settings))
    again = metrics_of(parse_spec(frozen, "study.toml").metrics)
    assert again == metrics_of(own.metrics)
    assert [written(*entry) for entry in again.items()] == frozen["metrics"]["list"]


WRONG: dict[str, tuple[Any, list[str]]] = {
    "no list": ("pc", ["metrics.list", "expected a list of names and tables", "got 'pc'"]),
    "an empty list": ([], ["metrics.list", "at least one"]),
    "an unknown name": (["pc", "dcp"], ["list.1: metric: expected ", "did you mean 'dpc'?", "--import MODULE"]),
    "a name that is none": ([3], ["list.0: expected the name of a metric", "got 3"]),
    "a table without one": ([{"steps": 3}], ["list.0: metric: expected ", "got None"]),
    "an unknown setting": ([{"metric": "pc", "draws": 3}], ["list.0: draws", "it has order, steps, curve"]),
    "a wrong setting": ([{"metric": "pc", "steps": 0}], ["list.0: steps: expected", "got 0"]),
    "no column": ([{"metric": "pc", "as": ""}], ["list.0: as: expected the name of a column"]),
    "a column twice": (["pc", {"metric": "pc", "steps": 3}], ["list.1: as: 'pc' clashes with the column 'pc'"]),
    "a column of the table": (
        [{"metric": "pc", "as": "model"}],
        ["list.0: as: model is a column of the table already"],
    ),
    "a column of a cost": ([{"metric": "pc", "as": "guided_rows"}], ["guided_rows is a column"]),
    "the column of an error": (
        ["infidelity", {"metric": "pc", "as": "infidelity_se"}],
        ["list.1: as: 'infidelity_se' clashes with the column 'infidelity'"],
    ),
    "a limit of nothing": (["pc", {"metric": "dpc", "limit": 0}], ["list.1: limit: expected a number of inputs", "0"]),
    "a limit that is no number": (["pc", {"metric": "dpc", "limit": True}], ["list.1: limit: expected", "True"]),
    "limits alone": ([{"metric": "dpc", "limit": 3}], ["list: every metric has a limit", "give the data a limit"]),
    "none of a setting that is not there": ([{"metric": "pc", "none": ["x"]}], ["list.0: x", "no such setting"]),
    "none that is no list": ([{"metric": "pc", "none": "steps"}], ["list.0: none: expected a list of settings"]),
}


@pytest.mark.parametrize(("listed", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told_in_a_line(listed: Any, words: list[str]) -> None:
    with pytest.raises(SpecError) as found:
        spec(metrics={"list": listed})
    assert str(found.value).startswith("small.toml: metrics")
    assert "\n" not in str(found.value)
    for word in words:
        assert word in str(found.value), found.value


def test_a_tolerance_wants_adaptive_steps() -> None:
    with pytest.raises(SpecError, match=r"^small\.toml: metrics: tolerance: .* steps adaptive beside it, got 9\.$"):
        spec(metrics={"tolerance": 0.1, "steps": 9})
    listed = ["infidelity", {"metric": "pc", "steps": "adaptive"}]
    assert metrics_of(spec(metrics={"list": listed, "tolerance": 0.1}).metrics)["pc"] == PredictionChange(
        steps="adaptive", tolerance=0.1
    )


MISTAKEN: list[Any] = [
    "pc",
    {"metric": "dpc", "rule": "foo"},
    {"metric": "dpc", "areaa": "morf"},
    {"rule": "sum"},
    {"metric": "lpc", "epsilon": -1.0, "limit": 0},
    3,
]
MISTAKES = [
    "small.toml: metrics.list.1: ",  # in words of type checks, which only tests have
    "small.toml: metrics.list.2: areaa: DirectedPredictionChange has no such setting; it has ",
    "small.toml: metrics.list.2: as: 'dpc' clashes with the column 'dpc'; choose another name.",
    "small.toml: metrics.list.3: metric: expected ",
    "small.toml: metrics.list.4: epsilon: expected a positive, finite number, got -1.0.",
    "small.toml: metrics.list.4: limit: expected a number of inputs, at least 1, got 0.",
    "small.toml: metrics.list.5: expected the name of a metric or a table with metric, got 3.",
]


@pytest.mark.parametrize(
    ("others", "before"),
    [
        ({}, []),
        ({"draws": 3}, ["small.toml: metrics.draws: no such key"]),
        ({"steps": 0, "seed": "x"}, ["small.toml: metrics.steps: expected", "small.toml: metrics.seed: "]),
    ],
    ids=["alone", "beside an unknown key", "beside wrong settings"],
)
def test_all_mistakes_are_told_at_once(others: dict[str, Any], before: list[str]) -> None:
    with pytest.raises(SpecError) as found:
        spec(metrics={"list": MISTAKEN, **others})
    lines = str(found.value).splitlines()
    assert len(lines) == len(before) + len(MISTAKES), found.value
    for line, begins in zip(lines, [*before, *MISTAKES], strict=True):
        assert line.startswith(begins), found.value


@pytest.mark.parametrize("listed", [["sensitivity_n", "infidelity"], [{"metric": "dpc", "order": "signed"}]], ids=str)
def test_a_study_of_some_metrics_is_whole(listed: list[Any], trained: Path) -> None:
    """Of random draws only, or guided only: table, results, examples, uncertainty, verification, and running again."""
    few = [{"method": "Gradient"}, {"method": "Random"}, {"method": "Random", "seed": 1}]
    own = spec(table(others=few), metrics={"list": listed, "samples": 8})
    ran(own, trained)
    study = open_study(trained)
    assert study.metrics == metrics_of(own.metrics)
    results = read_results(study)
    columns = [metric.column for metric in results.tables.metrics]
    assert columns == list(study.metrics)
    assert [metric.column for metric in results.tables.metrics if metric.noisy] == [
        name for name in columns if name == "infidelity"
    ]
    guided = "dpc" in columns
    scores = results.tables.scores
    assert (scores["guided_rows"].sum() > 0, scores["sampled_rows"].sum() > 0) == (guided, not guided)
    assert results.tables.uncertainty.is_empty() == guided
    (example,) = results.examples
    means = scores.group_by(pl.col("configuration").cast(pl.String)).agg(pl.col(columns[0]).cast(pl.Float64).mean())
    value = dict(means.rows())
    roles = dict(zip(zip(example.methods, example.roles, strict=True), example.configurations, strict=True))
    better, worse = (value[roles["Random", role]] for role in ("best", "worst"))
    assert (better > worse) == guided
    assert verify(study, 1.0, HERE).passed
    assert ran(own, trained)[0].computed == 0


FEW = [{"method": "Gradient"}, {"method": "Random"}]
LIMITED = ["pc", {"metric": "infidelity", "limit": 6}, {"metric": "dpc", "limit": 4}]


def test_a_limit_is_kept_in_the_frozen_spec() -> None:
    frozen = tomllib.loads(tomli_w.dumps(spec(metrics={"list": LIMITED}).form()))
    again = metrics_of(parse_spec(frozen, "study.toml").metrics)
    assert again.limits == {"infidelity": 6, "dpc": 4}
    assert again.form() == frozen["metrics"]["list"]


def test_a_limited_metric_is_that_of_the_first_inputs_bit_for_bit(trained: Path, tmp_path: Path) -> None:
    """Ten inputs in units of four: one limit ends within the second unit, one between the first and the second."""
    whole = [entry if isinstance(entry, str) else entry["metric"] for entry in LIMITED]
    shutil.copytree(trained, tmp_path / "whole")
    tables = {}
    for folder, listed in ((trained, LIMITED), (tmp_path / "whole", whole)):
        ran(spec(table(others=FEW), metrics={"list": listed, "samples": 8}), folder)
        tables[folder] = read_results(open_study(folder)).tables.scores
    some, all_of_them = tables.values()
    assert some.columns == all_of_them.columns
    order = all_of_them["input_id"].unique(maintain_order=True).to_list()
    for column, limit in (("infidelity", 6), ("infidelity_se", 6), ("dpc", 4), ("pc", 10)):
        first = pl.col("input_id").is_in(order[:limit])
        assert some.filter(first)[column].equals(all_of_them.filter(first)[column])
        assert some.filter(~first)[column].null_count() == (10 - limit) * len(FEW)


def test_a_study_with_limits_is_whole(trained: Path) -> None:
    own = spec(table(others=FEW), metrics={"list": LIMITED, "samples": 8})
    ran(own, trained)
    study = open_study(trained)
    results = read_results(study)
    assert results.tables.settings["limits"] == {"infidelity": 6, "dpc": 4}
    summary = configurations(results.tables.scores, results.tables.metrics)
    assert summary["inputs"].to_list() == [10, 10]
    assert summary["guided_inputs"].to_list() == [10, 10]
    assert summary["sampled_inputs"].to_list() == [8, 8]  # of the units in which some inputs have such a metric
    for column, limit in (("pc", 10), ("infidelity", 6), ("dpc", 4)):
        assert len(matrix(results.tables.scores, "Cancer-Linear", column).inputs) == limit
    files = pl.read_parquet(trained / "scores" / "*.parquet")  # all of them have all columns
    assert files.select(pl.col("^infidelity.*$").count()).row(0) == (12, 12)
    assert verify(study, 1.0, HERE).passed
    assert one_line(View(results.tables, ())).endswith("10 inputs; Infidelity on the first 6, DPC on the first 4.")
    for unit in study.units:
        rows = read_facts(study.store.contents("scores").files[unit.stem])["sampled_rows"]
        assert rows == forecast(study.models[unit.model], unit.rows, study.metrics, HERE).sampled
    assert ran(own, trained)[0].computed == 0


def test_limits_change_the_keys_of_the_units_that_they_concern(finished: Path) -> None:
    def stems(limit: int) -> list[str]:
        listed = ["pc", {"metric": "dpc", "limit": limit}]
        own = spec(table(), metrics={"list": listed})
        return [unit.stem for unit in Study(own, Store(finished)).units]

    at_four, at_six, at_seven, at_ten = map(stems, (4, 6, 7, 10))
    assert len({stem[0] for stem in (at_four, at_six, at_seven, at_ten)}) == 1
    assert len({stem[1] for stem in (at_four, at_six, at_seven, at_ten)}) == 4
    assert len({stem[2] for stem in (at_four, at_six, at_seven)}) == 1 != at_ten[2]


READINGS: dict[str, dict[str, Any]] = {
    "dpc_coherent": {"metric": "dpc", "rule": "coherent"},
    "dpc_morf": {"metric": "dpc", "area": "morf"},
    "dpc_steps": {"metric": "dpc", "curve": "increments", "steps": 5},
    "dpc_near": {"metric": "dpc", "replacement": {"name": "toward", "epsilon": 0.1}},
    "lpc": {"metric": "lpc"},
    "lpc_far": {"metric": "lpc", "epsilon": 0.5},
    "loss": {"metric": "infidelity", "normalize": False},
}


def test_every_reading_can_be_listed_and_survives_its_form() -> None:
    listed = [{**entry, "as": column} for column, entry in READINGS.items()]
    own = spec(metrics={"list": listed, "samples": 8})
    metrics = metrics_of(own.metrics)
    assert metrics["dpc_near"] == DirectedPredictionChange(replacement=Toward(0.1))
    assert metrics["lpc_far"] == LocalPredictionChange(epsilon=0.5)
    frozen = tomllib.loads(tomli_w.dumps(own.form()))
    assert metrics_of(parse_spec(frozen, "study.toml").metrics) == metrics


def test_adaptive_steps_and_replacements_of_the_training_data(trained: Path) -> None:
    listed = [
        "pc",
        {"metric": "pc", "replacement": {"name": "conditional"}, "as": "pc_fit"},
        {"metric": "pc", "replacement": {"name": "marginal", "draws": 2}, "steps": 4, "as": "pc_rows"},
    ]
    own = spec(table(others=FEW), metrics={"list": listed, "steps": "adaptive", "tolerance": 0.001})
    assert metrics_of(own.metrics)["pc"] == PredictionChange(steps="adaptive", tolerance=0.001)
    ran(own, trained)
    study = open_study(trained)
    tables = read_results(study).tables
    assert [metric.column for metric in tables.metrics if metric.noisy] == ["pc_rows"]
    model = next(iter(study.models.values()))
    for column, metric in study.metrics.items():
        problem = verax.Problem(model.scorer(False), model.inputs[:10], background=model.background, device="cpu")
        wanted = verax.evaluate(problem, {"mine": model.configurations[0]}, [metric])
        found = tables.scores.filter(pl.col("configuration") == model.configurations[0].canonical)[column]
        assert found.to_list() == pytest.approx(wanted["pc"].value["mine"].tolist(), abs=1e-5)
    assert verify(study, 1.0, HERE).passed
    with pytest.raises(SpecError, match=r"metrics\.steps"):
        spec(metrics={"steps": "few"})
    unit = study.units[0]
    rows = read_facts(study.store.contents("scores").files[unit.stem])["guided_rows"]
    assert rows <= forecast(model, unit.rows, study.metrics, HERE).guided
