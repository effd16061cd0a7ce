"""Plans: what is told before a study starts is what it then costs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from study.studies import HERE, LINEAR, MLP, flip, images, spec, table, whole
from verax.attribution import Family, Rows, families
from verax.attribution.gradient import GradientFamily
from verax.metrics.base import Metric
from verax.study.compute import compute
from verax.study.explained_models import ExplainedModel, Machine
from verax.study.metrics import MetricsSpec, metrics_of
from verax.study.plan import Forecast, _place, forecast, plan_of
from verax.study.results import read_results
from verax.study.run import plan_study, run_study
from verax.study.store import Cache, read_facts
from verax.study.study import Study, open_study
from verax.study.units import MOST_INPUTS, Part, chunk_size, units_of


def total(forecasts: Sequence[Forecast]) -> Forecast:
    return sum(forecasts, Forecast(Rows(0), 0, 0, Rows(0)))


@pytest.fixture(scope="module")
def study(finished: Path) -> Study:
    return open_study(finished)


def counted(
    explained: ExplainedModel, rows: slice, metrics: Mapping[str, Metric], machine: Machine = HERE
) -> dict[str, Any]:
    return compute(explained, rows, metrics, machine, Cache(Path("nowhere"), 0)).costs


def check(told: Forecast, costs: dict[str, Any]) -> None:
    assert told.attribution is not None
    assert told.total is not None
    assert told.attribution.forward == costs["attribution_rows"]
    assert told.attribution.backward == costs["rows_backward"]
    assert told.guided == costs["guided_rows"] + costs["rows_spared"]
    assert told.sampled == costs["sampled_rows"]
    assert told.total.forward == costs["rows_forward"] + costs["rows_spared"]


@pytest.mark.parametrize("rows", [slice(0, 1), slice(2, 7), slice(0, 10)], ids=str)
@pytest.mark.parametrize("model", ["Cancer-Linear", "Cancer-MLP"])
def test_rows_of_a_table_are_as_told(study: Study, model: str, rows: slice) -> None:
    metrics = study.metrics
    check(forecast(study.models[model], rows, metrics, HERE), counted(study.models[model], rows, metrics))


@pytest.mark.parametrize("rows", [slice(0, 1), slice(1, 3), slice(0, 3)], ids=str)
def test_rows_of_images_are_as_told(study: Study, rows: slice) -> None:
    explained, metrics = study.models["Digits-Linear"], study.metrics
    check(forecast(explained, rows, metrics, HERE), counted(explained, rows, metrics))


def test_every_family_tells_its_own_rows(study: Study) -> None:
    """One configuration at a time, with the others of its family, so that errors cannot cancel."""
    metrics = metrics_of(MetricsSpec(steps=2, infidelity=False))
    for name in ("Cancer-MLP", "Digits-Linear"):
        explained = study.models[name]
        for family in dict.fromkeys(explained.used(one).family for one in explained.configurations):
            own = tuple(one for one in explained.configurations if explained.used(one).family == family)
            alone = replace(explained, configurations=own)
            costs = counted(alone, slice(0, 3), metrics)
            check(forecast(alone, slice(0, 3), metrics, HERE), costs)
            assert (costs["rows_backward"] > 0) == (family.needs_gradients and type(family).__name__ != "RandomFamily")


def test_every_configuration_pays_for_its_own_family(study: Study) -> None:
    """In the table of many families, each has the rows that it told, and an even share of the unperturbed inputs."""
    for name, rows in (("Cancer-MLP", slice(0, 5)), ("Digits-Linear", slice(0, 3))):
        explained = study.models[name]
        found = compute(explained, rows, study.metrics, HERE, Cache(Path("nowhere"), 0)).table
        names = ("attribution_rows", "attribution_rows_backward")
        sums = found.group_by(pl.col("configuration").cast(pl.String)).agg(pl.col(names).cast(pl.Float64).sum())
        paid = {one: (forward, backward) for one, forward, backward in sums.rows()}
        clean = (rows.stop - rows.start) / len(explained.configurations)
        problem = explained.problem(rows)
        for family, members in families([explained.used(one) for one in explained.configurations]).items():
            told = family.rows(members, problem, _place(explained, HERE))
            assert told is not None
            own = [one for one in explained.configurations if explained.used(one) in members]
            for one in own:
                share = (clean + told.forward / len(own), told.backward / len(own))
                assert paid[one.canonical] == pytest.approx(share, rel=1e-5), one


def test_the_whole_grid_is_told(study: Study) -> None:
    """The paper's own configurations, on two inputs."""
    metrics = metrics_of(MetricsSpec(samples=4))
    for name, every in (("Cancer-MLP", 101), ("Digits-Linear", 307)):
        explained = study.models[name]
        own = whole_grid(explained, every)
        check(forecast(own, slice(0, 2), metrics, HERE), counted(own, slice(0, 2), metrics))


def whole_grid(explained: ExplainedModel, every: int) -> ExplainedModel:
    taken = explained.data.attributions.model_copy(update={"grid": True, "every": every, "others": ()})
    return replace(explained, configurations=tuple(taken.configurations(explained.modality)))


METRICS = {
    "one step": metrics_of(MetricsSpec(steps=1, samples=4)),
    "more steps than features": metrics_of(MetricsSpec(steps=100, samples=4)),
    "two draws": metrics_of(MetricsSpec(samples=2)),
    "no Infidelity": metrics_of(MetricsSpec(infidelity=False)),
    "a subset": metrics_of(MetricsSpec(samples=4, subset=3)),
    "one guided metric": metrics_of(MetricsSpec(list=["dpc"])),
    "experiments of different steps": metrics_of(MetricsSpec(list=["pc", {"metric": "dpc", "steps": 7}])),
    "every rule and area": metrics_of(
        MetricsSpec(
            list=[
                "pc",
                {"metric": "dpc", "rule": "coherent", "steps": 7},
                {"metric": "dpc", "area": "morf", "as": "dpc_morf"},
                {"metric": "lpc", "steps": 7},
                {"metric": "lpc", "epsilon": 0.1, "as": "lpc_far"},
            ]
        )
    ),
    "random draws only": metrics_of(MetricsSpec(list=["infidelity"], samples=4)),
    "shared and other draws": metrics_of(
        MetricsSpec(
            list=[
                {"metric": "infidelity", "samples": 4},
                {"metric": "infidelity", "samples": 4, "normalize": False, "as": "plain"},
                "sensitivity_n",
                "pc",
            ]
        )
    ),
}


@pytest.mark.parametrize("metrics", METRICS.values(), ids=METRICS.keys())
def test_settings_of_metrics_are_told(study: Study, metrics: Mapping[str, Metric]) -> None:
    for name in ("Cancer-Linear", "Digits-Linear"):
        explained = study.models[name]
        check(forecast(explained, slice(0, 3), metrics, HERE), counted(explained, slice(0, 3), metrics))


@pytest.mark.parametrize("batch_size", [1, 7, 4096])
def test_rows_do_not_depend_on_the_batch_size(study: Study, batch_size: int) -> None:
    """DeepLiftSHAP's tiles follow the batch size, so the forecast has to as well."""
    machine = Machine(batch_size=batch_size)
    explained = study.models["Cancer-MLP"]
    own = replace(explained, configurations=explained.configurations[:-4])  # LIME with batches of one takes long
    told = forecast(own, slice(0, 3), study.metrics, machine)
    check(told, counted(own, slice(0, 3), study.metrics, machine))


def test_the_cache_does_not_change_the_cost_of_a_unit(study: Study, tmp_path: Path) -> None:
    """Also when only some families are there, as after a run that was killed."""
    explained, metrics = study.models["Cancer-Linear"], study.metrics
    cache = Cache(tmp_path, 1 << 30)
    first = compute(explained, slice(0, 4), metrics, HERE, cache)
    for path in sorted(tmp_path.iterdir())[::2]:
        path.unlink()
    for again in (compute(explained, slice(0, 4), metrics, HERE, cache) for _ in range(2)):
        for name in ("attribution_rows", "guided_rows", "sampled_rows", "rows_forward", "rows_backward"):
            assert again.costs[name] == first.costs[name], name
        check(forecast(explained, slice(0, 4), metrics, HERE), again.costs)


def test_unshared_rows_are_those_of_single_calls(study: Study) -> None:
    """Every configuration explained alone, and every metric called alone."""
    explained, metrics, rows = study.models["Cancer-MLP"], metrics_of(MetricsSpec(steps=5, samples=8)), slice(0, 2)
    told = forecast(explained, rows, metrics, HERE)
    forward = backward = 0
    for one in explained.configurations:
        alone = replace(explained, configurations=(one,))
        costs = counted(alone, rows, metrics)
        forward += costs["attribution_rows"] + 2 * (4 * 2 * 5 + 2 * (8 + 1) + 2 * (160 + 1))
        backward += costs["rows_backward"]
    assert told.unshared == Rows(forward, backward)


def test_rows_alone_are_those_of_a_single_call(study: Study) -> None:
    """What the report tells as the price of an explanation, for each configuration of each model."""
    told = read_results(study).tables.alone
    assert told.height == sum(len(explained.configurations) for explained in study.models.values())
    explained, metrics = study.models["Cancer-MLP"], metrics_of(MetricsSpec(steps=1, infidelity=False))
    for one in explained.configurations:
        costs = counted(replace(explained, configurations=(one,)), slice(0, 1), metrics)
        row = told.row(by_predicate=(pl.col("model") == "Cancer-MLP") & (pl.col("configuration") == one.canonical))
        assert row[2:] == (costs["attribution_rows"], costs["rows_backward"])


def test_forecasts_add_up(study: Study) -> None:
    explained, metrics = study.models["Cancer-Linear"], study.metrics
    parts = [forecast(explained, unit.rows, metrics, HERE) for unit in units_of(Part(explained, metrics))]
    together = total(parts)
    assert together.guided == sum(one.guided for one in parts)
    assert together.total == Rows(
        sum(one.total.forward for one in parts if one.total),
        sum(one.total.backward for one in parts if one.total),
    )
    unknown = total([*parts, Forecast(None, 1, 1, None)])
    assert unknown.total is None
    assert unknown.unshared is None


def test_the_files_hold_what_was_told(study: Study, finished: Path) -> None:
    found = study.store.contents("scores", [unit.stem for unit in study.units]).files
    assert len(found) == len(study.units) == 8
    for unit in study.units:
        check(forecast(study.models[unit.model], unit.rows, study.metrics, HERE), read_facts(found[unit.stem]))


def test_units_cover_all_inputs_once(study: Study) -> None:
    for name, explained in study.models.items():
        own = [unit for unit in study.units if unit.model == name]
        covered = [place for unit in own for place in range(unit.rows.start, unit.rows.stop)]
        assert covered == list(range(len(explained.inputs)))
        assert len({unit.stem for unit in own}) == len(own)


def test_the_size_of_a_unit_is_bounded(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the number of inputs, and by the bytes of all attributions."""
    explained = study.models["Cancer-Linear"]
    free = replace(explained, data=explained.data.model_copy(update={"chunk": None}))
    assert chunk_size(explained) == 4
    assert chunk_size(free) == MOST_INPUTS
    each = 4 * 30 * len(free.configurations)
    for room, size in ((3 * each, 3), (4 * each - 1, 3), (1, 1)):
        monkeypatch.setattr("verax.study.units._UNIT_BYTES", room)
        assert chunk_size(free) == size


@pytest.mark.usefixtures("real_pace")
def test_the_plan_in_words(study: Study) -> None:
    text = "\n".join(plan_of(study, study.units, HERE).lines())
    assert "small: 8 of 8 units to compute" in text
    for name, explained in study.models.items():
        assert f"{name}: {len(explained.configurations)} configurations x {len(explained.inputs)} inputs" in text
        own = total([forecast(explained, u.rows, study.metrics, HERE) for u in study.units if u.model == name])
        assert own.total is not None
        assert own.unshared is not None
        assert f"at most {own.total.forward:,} rows forward, {own.total.backward:,} of them backward" in text
        assert f"(without sharing {own.unshared.forward:,} and {own.unshared.backward:,})" in text
    assert re.search(r"expected: about \d+ s, and identical rows of an input are left out", text)
    assert "disk: about 0 MiB of tables, at most 2 GiB of attributions" in text
    assert "small: 0 of 8 units to compute" in plan_of(study, [], HERE).lines()[0]


def test_the_plan_is_told_before_anything_is_computed(trained: Path) -> None:
    """And what is told is all that is computed."""
    for count in (3, 0):
        told: list[str] = []
        before = len(list((trained / "scores").glob("*")))

        def log(line: str, told: list[str] = told, before: int = before) -> None:
            told.append(line)
            assert len(list((trained / "scores").glob("*"))) == before

        assert run_study(spec(), trained, log=log).computed == count
        assert f"small: {count} of 3 units to compute" in told


def test_a_plan_needs_no_training_and_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells as many rows before the training as afterwards."""
    own = spec(table(), images())

    def never(*arguments: Any, **settings: Any) -> Any:
        raise AssertionError("nothing is to be trained")

    with monkeypatch.context() as patch:
        patch.setattr("verax.paper.models.shipped.train_shipped", never)
        before = plan_study(own, tmp_path / "study").lines()
        assert not (tmp_path / "study").exists()
    told: list[str] = []
    run_study(own, tmp_path / "study", log=told.append)
    rows = [line for line in before if " rows forward, " in line or " configurations x " in line]
    assert len(rows) == 4
    assert [line for line in told if line in rows] == rows
    assert before[0] == "small: 5 of 5 units to compute"
    assert plan_study(own, tmp_path / "study").lines()[0] == "small: 0 of 5 units to compute"


def test_a_plan_moves_nothing(copied: Path) -> None:
    """Neither damaged units nor those that a smaller limit leaves out."""
    flip(sorted((copied / "scores").iterdir())[0], 100)
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*")}
    smaller = spec(table(LINEAR, MLP, limit=4), images(limit=1))
    assert plan_study(whole(), copied).lines()[0] == "small: 1 of 8 units to compute"
    assert plan_study(smaller, copied).lines()[0] == "small: 2 of 3 units to compute"
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*")} == before


def test_a_family_may_not_know_its_rows(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the plan says so, and the study goes on without."""
    monkeypatch.setattr(GradientFamily, "rows", Family.rows)
    told = forecast(study.models["Cancer-Linear"], slice(0, 4), study.metrics, HERE)
    assert told.attribution is None
    assert told.total is None
    assert told.unshared is None
    assert told.guided > 0
    lines = plan_of(study, study.units, HERE).lines()
    assert lines.count("    model rows not known: a family does not say how many it needs") == 3
    costs = read_results(study).tables.costs
    assert costs["rows_forward_unshared"].is_null().all()
    assert (costs["rows_forward"] > 0).all()
