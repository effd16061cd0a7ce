"""Streams: the bits of one call for any cutting, totals that merge, sources of every kind, and stopping early."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import jaxtyping
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

import calls
import verax
from calls import evaluate
from verax.attribution import Gradient, IntegratedGradients, KernelShap
from verax.evaluation.result import Evaluation
from verax.metrics import (
    Deletion,
    DirectedPredictionChange,
    EffectCorrelation,
    Infidelity,
    PredictionChange,
    ScoreRange,
    SensitivityN,
)

ROWS, COLUMNS = 150, 7
stream = functools.partial(calls.stream, like=torch.zeros(1, COLUMNS))
METRICS = ("pc", "infidelity", "sensitivity_n", "effect_correlation")
CALL = {"batch_size": 3, "samples": 20, "steps": 3}  # stretches of 48 rows


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    """One output: its last layer is a product of a matrix with a vector, whose bits hang on the rows beside a row."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(COLUMNS, 33), torch.nn.ReLU(), torch.nn.Linear(33, 1)).eval()


@pytest.fixture(scope="module")
def scorer(model: torch.nn.Module) -> verax.Scorer:
    return verax.Scorer(model, returns="logits")


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def given_two(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"noise": torch.randn(x.shape, generator=torch.Generator().manual_seed(2)), "inputs": x.clone()}


@pytest.fixture(scope="module")
def whole(scorer: verax.Scorer, x: torch.Tensor, given_two: dict[str, torch.Tensor]) -> Evaluation:
    return evaluate(scorer, x, given_two, METRICS, **CALL)


@pytest.fixture(scope="module")
def directed(scorer: verax.Scorer, x: torch.Tensor, given_two: dict[str, torch.Tensor]) -> Evaluation:
    return evaluate(scorer, x, given_two, ["dpc"], **CALL)


def cut(x: torch.Tensor, attributions: dict[str, torch.Tensor], sizes: list[int]):
    for rows in torch.arange(len(x)).split(sizes):
        yield x[rows], {name: one[rows] for name, one in attributions.items()}


def same(found: list[Evaluation], wanted: Evaluation) -> bool:
    return all(
        torch.equal(torch.cat([one[name].value[label] for one in found]), value)
        for name, result in wanted.items()
        for label, value in result.value.items()
    )


def test_the_bits_of_one_call(scorer, x, given_two, whole) -> None:
    sizes = [1, 40, 7, 48, 54]
    streamed = stream(scorer, cut(x, given_two, sizes), metrics=METRICS, **CALL)
    found = list(streamed)
    assert [one.inputs for one in found] == sizes
    assert same(found, whole)
    curves = torch.cat([one["pc"].morf["noise"] for one in found])
    assert torch.equal(curves, whole["pc"].morf["noise"])
    assert sum(one.rows for one in found) == whole.rows == streamed.totals().rows


@settings(derandomize=True, max_examples=8, deadline=None)
@given(st.sets(st.integers(1, ROWS - 1), max_size=8))
def test_the_bits_of_one_call_for_any_cutting(scorer, x, given_two, directed, places) -> None:
    ends = [0, *sorted(places), ROWS]
    sizes = [stop - start for start, stop in itertools.pairwise(ends)]
    found = list(stream(scorer, cut(x, given_two, sizes), metrics=["dpc"], **CALL))
    assert [one.inputs for one in found] == sizes
    assert same(found, directed)


def test_the_bits_hang_on_the_cutting_where_nobody_cares(scorer, x, given_two, directed) -> None:
    """What the stretches are for: calls of other lengths give other last bits."""
    apart = [evaluate(scorer, *batch, ["dpc"], **CALL) for batch in cut(x, given_two, [47, 47, 56])]
    assert not same(apart, directed)


def test_adaptive_steps_drawn_replacements_and_many_features_keep_their_bits() -> None:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(70, 9), torch.nn.Tanh(), torch.nn.Linear(9, 1))
    scorer, x = verax.Scorer(model, returns="logits"), torch.randn(40, 70)
    moved = verax.replacement.Marginal(draws=2)
    metrics = {
        "adaptive": PredictionChange(steps="adaptive", tolerance=0.1),
        "drawn": PredictionChange(steps=4, replacement=moved),
        "coherent": DirectedPredictionChange(steps=4, rule="coherent"),
    }
    problem = verax.Problem(scorer, x, batch_size=1, background=x[:10])  # stretches of 16 rows
    wanted = verax.evaluate(problem, {"x": x}, metrics)
    for sizes in ([13, 27], [16, 16, 8]):
        assert same(list(verax.stream(problem, cut(x, {"x": x}, sizes), metrics=metrics)), wanted)
    lone = verax.Problem(scorer, x, batch_size=1)
    whole = verax.evaluate(lone, {"x": x}, ["pc"])
    assert same(list(verax.stream(lone, cut(x, {"x": x}, [13, 27]), metrics=["pc"])), whole)


def test_methods_are_computed_on_the_way_with_the_same_bits(scorer, x) -> None:
    methods = {"ig": IntegratedGradients(baseline="mean", points=4), "shap": KernelShap(samples=16), "g": Gradient()}
    call = {"batch_size": 4, "background": x[:20], "steps": 3}  # stretches of 64 rows
    wanted = evaluate(scorer, x, methods, ["pc", "dpc"], **call)
    for batches in (x.split(33), DataLoader(TensorDataset(x, torch.zeros(ROWS)), batch_size=40)):
        assert same(list(stream(scorer, batches, methods, ["pc", "dpc"], **call)), wanted)


def test_rows_given_at_once_are_cut_here(scorer, x, given_two, whole, directed, tmp_path) -> None:
    np.save(tmp_path / "x.npy", x.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    arrays = {name: one.numpy() for name, one in given_two.items()}
    assert same(list(stream(scorer, x, given_two, ["dpc"], **CALL)), directed)
    for rows in (mapped, x.numpy()):
        found = list(stream(scorer, rows, arrays, ["pc"], **CALL))
        assert [one.inputs for one in found] == [48, 48, 48, 6]
        assert np.array_equal(
            np.concatenate([one["pc"].value["noise"] for one in found]), whole["pc"].value["noise"].numpy()
        )


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_tables_are_found_by_name_and_segments_by_theirs(model, x, make) -> None:
    names = [f"c{place}" for place in range(COLUMNS)]
    scorer = verax.Scorer(model, returns="logits", feature_names=names)
    columns = {name: x[:, place].numpy() for place, name in enumerate(names)}
    region = np.array(["north", "south", "south"] * (ROWS // 3))
    backwards = dict(reversed(columns.items()))
    table = make(backwards | {"region": region})
    wanted = evaluate(scorer, x, {"x": x}, ["pc"])
    attributions = {"x": pl.DataFrame(backwards)}
    for totals in (
        stream(scorer, table, attributions, ["pc"], by="region").totals(),
        stream(scorer, [(table, attributions)], metrics=["pc"], by="region").totals(),
    ):
        assert {label: one.count for label, one in totals.per_segment.items()} == {"north": 50, "south": 100}
        south = wanted["pc"].value["x"][torch.from_numpy(region == "south")].double().mean()
        assert totals.per_segment["south"]["pc"].mean()["x"].mean == pytest.approx(float(south), rel=1e-12)
    batches = table.to_batches() if make is pa.table else [table]
    found = stream(scorer, batches, {"g": Gradient()}, ["pc"], by="region").totals()
    assert found.per_segment["north"].count == 50


def test_totals_are_those_of_one_call_and_merge(scorer, x, given_two, whole) -> None:
    labels = ["a", "b"] * (ROWS // 2)
    batches = [
        {"inputs": part, "attributions": one, "by": labels[:50], "target": [0] * 50}
        for part, one in cut(x, given_two, [50, 50, 50])
    ]
    totals = stream(scorer, batches, metrics=["pc"], quantiles=True).totals()
    first, second, third = (stream(scorer, [one], metrics=["pc"], quantiles=True).totals() for one in batches)
    for merged in (first.merge(second).merge(third), third.merge(first.merge(second))):
        assert merged["pc"].sums == totals["pc"].sums
        assert merged["pc"].quantile(0.9) == totals["pc"].quantile(0.9)
        assert merged.per_segment["b"]["pc"].sums == totals.per_segment["b"]["pc"].sums
    free = stream(scorer, x, given_two, METRICS, **CALL).totals()
    for name, result in whole.items():
        for label, mean in result.mean().items():
            own = free[name].mean()[label]
            assert (own.mean, own.low, own.high) == pytest.approx((mean.mean, mean.low, mean.high), rel=1e-9)
    assert sum(one.count for one in free.per_class.values()) == free.count == ROWS
    assert free.to_frame().filter(pl.col("of") == "class").height == 2 * 2 * len(METRICS)
    assert "Means over 150 inputs" in repr(free)
    with pytest.raises(ValueError, match="same metrics"):
        totals.merge(free)


def test_quantiles_are_within_a_hundredth(scorer, x, given_two) -> None:
    totals = stream(scorer, x, given_two, ["pc"], quantiles=True).totals()
    values = evaluate(scorer, x, given_two, ["pc"])["pc"].value["noise"].double().numpy()
    for share in (0.0, 0.1, 0.5, 0.99, 1.0):
        below, above = np.quantile(values, share, method="lower"), np.quantile(values, share, method="higher")
        found = totals["pc"].quantile(share)["noise"]
        assert below - 0.01 * abs(below) <= found <= above + 0.01 * abs(above)
    with pytest.raises(ValueError, match="quantiles=True"):
        stream(scorer, x, given_two, ["pc"]).totals()["pc"].quantile(0.5)


def test_one_array_and_a_stack_go_back_in_their_form(scorer, x, given_two) -> None:
    stack = torch.stack(list(given_two.values()))
    lone = stream(scorer, [(part, part) for part in x.split(40)], metrics=["pc"]).totals()["pc"].mean()
    both = stream(scorer, zip(x.split(40), stack.split(40, dim=1), strict=True), metrics=["pc"]).totals()["pc"].mean()
    assert both[1] == lone == stream(scorer, x, stack, ["pc"]).totals()["pc"].mean()[1]


def test_inputs_with_companions_come_batch_by_batch() -> None:
    def model(values: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return (values * shift).sum(1)

    scorer, x, shift = verax.Scorer(model, returns="values"), torch.rand(10, 3), torch.rand(10, 1)
    problem = verax.Problem(scorer, x, model_kwargs={"shift": shift})
    wanted = verax.evaluate(problem, {"x": x}, ["pc"])
    batches = [
        {"inputs": x[rows], "attributions": {"x": x[rows]}, "model_kwargs": {"shift": shift[rows]}}
        for rows in (slice(0, 4), slice(4, 10))
    ]
    assert same(list(verax.stream(problem, batches, metrics=["pc"])), wanted)


def test_it_stops_when_the_interval_is_narrow_enough(scorer) -> None:
    x = torch.randn(6000, COLUMNS, generator=torch.Generator().manual_seed(4))
    full = stream(scorer, x, {"x": x}, ["pc", "dpc"]).totals()
    reach = 6 * (full["dpc"].mean()["x"].high - full["dpc"].mean()["x"].mean)
    early = stream(scorer, x, {"x": x}, ["pc", "dpc"], until={"dpc": reach})
    totals = early.totals()
    mean = totals["dpc"].mean()["x"]
    assert early.stopped
    assert 256 <= totals.count < 2000
    assert mean.high - mean.low <= 2 * reach
    again = stream(scorer, x, {"x": x}, ["pc", "dpc"], until={"dpc": reach}).totals()
    assert again["dpc"].sums == totals["dpc"].sums
    labels = np.repeat([0, 1], [5000, 1000])
    drawn = stream(scorer, x, {"x": x}, ["dpc"], until=reach, stratify=labels, by=labels).totals()
    assert drawn.per_segment[1].count == pytest.approx(drawn.count / 6, abs=1)
    taken = stream(scorer, ((part, {"x": part}) for part in x.split(100)), metrics=["dpc"], until=reach)
    assert 256 <= taken.totals().count < 2000


def mostly_zero(rows: int, every: int, start: int) -> torch.Tensor:
    """Rows that are their baseline, and from a row on one in so many that is not."""
    x = torch.zeros(rows, COLUMNS)
    x[start::every] = 3.0
    return x


def test_scores_that_are_alike_at_first_do_not_stop_it(scorer) -> None:
    x = mostly_zero(4096, every=250, start=300)
    batches = [(part, {"x": part}) for part in x.split(256)]
    streamed = stream(scorer, batches, metrics=["pc"], until=0.01)
    first = next(streamed)
    assert not first["pc"].value["x"].any()
    assert not streamed.stopped
    early = streamed.so_far["pc"].mean()["x"]
    assert early.low < -0.01
    assert early.high > 0.01
    totals = streamed.totals()
    mean = totals["pc"].mean()["x"]
    assert streamed.stopped
    assert 256 < totals.count < 4096
    assert mean.low < mean.mean < mean.high
    assert max(mean.high - mean.mean, mean.mean - mean.low) <= 0.01
    whole = stream(scorer, x, {"x": x}, ["pc"]).totals()["pc"].mean()["x"].mean
    assert mean.low <= whole <= mean.high


def test_scores_without_a_bound_do_not_stop_it_while_they_are_alike(model) -> None:
    values = verax.Scorer(model, returns="values")
    x = mostly_zero(2000, every=10, start=1024)
    streamed = stream(values, [(part, {"x": part}) for part in x.split(256)], metrics=["pc"], until=1000.0)
    for _ in range(4):
        next(streamed)
        assert not streamed.stopped
    assert np.isnan(streamed.so_far["pc"].mean()["x"].high)
    next(streamed)  # now some differ
    assert streamed.stopped


def test_intervals_say_what_they_are(scorer, model, x) -> None:
    plain, early = (stream(scorer, x, {"x": x}, ["pc", "dpc"], until=reach).totals() for reach in (None, 0.01))
    assert "with 95 % intervals; " in repr(plain)
    assert "intervals that hold at any time of stopping (of DPC if no score lies outside the range assumed)" in repr(
        early
    )
    assert set(plain.to_frame()["interval"]) == {"t"}
    frame = early.to_frame()
    assert set(frame.filter(pl.col("metric") == "pc")["interval"]) == {"anytime"}
    assert set(frame.filter(pl.col("metric") == "dpc")["interval"]) == {"anytime, range assumed"}
    for anytime, student in zip(frame.iter_rows(named=True), plain.to_frame().iter_rows(named=True), strict=True):
        assert (anytime["mean"], anytime["inputs"]) == (student["mean"], student["inputs"])
        assert anytime["low"] <= student["low"] or anytime["low"] == -1
        assert anytime["high"] >= student["high"] or anytime["high"] == 1
    with pytest.raises(ValueError, match="merge: expected totals of streams with until, or of streams without it"):
        plain.merge(early)


RANGES = {
    "pc": (PredictionChange(), ScoreRange(-1.0, 1.0, certain=True), ScoreRange()),
    "pc, adaptive": (PredictionChange(steps="adaptive"), ScoreRange(-1.0, 1.0), ScoreRange()),
    "pc, increments": (PredictionChange(curve="increments"), ScoreRange(-1.0, 1.0), ScoreRange()),
    "deletion": (Deletion(), ScoreRange(-1.0, 1.0, certain=True), ScoreRange()),
    "dpc": (DirectedPredictionChange(), ScoreRange(-1.0, 1.0), ScoreRange()),
    "effect correlation": (
        EffectCorrelation(),
        ScoreRange(-1.0, 1.0, certain=True),
        ScoreRange(-1.0, 1.0, certain=True),
    ),
    "infidelity": (Infidelity(samples=21), ScoreRange(0.0, 1.05, certain=True), ScoreRange()),
    "infidelity as it is": (Infidelity(normalize=False), ScoreRange(), ScoreRange()),
    "sensitivity-n": (SensitivityN(), ScoreRange(), ScoreRange()),
}


@pytest.mark.parametrize(("metric", "of_probabilities", "of_values"), RANGES.values(), ids=RANGES.keys())
def test_metrics_know_their_range(metric, of_probabilities, of_values) -> None:
    assert metric.score_range(1.0) == of_probabilities
    assert metric.score_range(float("inf")) == of_values


def test_a_wrong_range_is_told(scorer, x) -> None:
    class Narrow(PredictionChange):
        def score_range(self, largest_change):
            return ScoreRange(-1e-6, 1e-6, certain=True)

    with pytest.raises(ValueError, match=r"pc: expected scores from -1e-06 to 1e-06, got .* Its score_range is wrong"):
        stream(scorer, x, {"x": x}, [Narrow()], until=0.1).totals()


def test_batches_are_asked_for_when_they_are_needed(scorer, x) -> None:
    asked = []

    def endless():
        while True:
            asked.append(1)
            yield x[:30], {"x": x[:30]}

    streamed = stream(scorer, endless(), metrics=["pc"], batch_size=3)
    next(streamed)
    assert len(asked) == 2  # 48 rows
    assert streamed.so_far is not None
    assert streamed.so_far.count == 48


@pytest.mark.filterwarnings("default")
def test_methods_in_the_place_of_batches_are_told(scorer, x) -> None:
    with pytest.raises(TypeError, match=r"^batches: expected .* got a dict; .*attributions=.*batches=None"):
        verax.stream(verax.Problem(scorer, x), {"gradient": Gradient()}, metrics=["pc"])


def test_a_doubt_is_told_once(scorer, x) -> None:
    with pytest.warns(UserWarning, match="baselines: outside") as told:
        stream(scorer, x.split(50), {"g": Gradient()}, ["pc"], baselines=99.0, batch_size=3).totals()
    assert len(told) == 1


def test_what_cannot_be_done_is_said(scorer, x, given_two) -> None:
    with pytest.raises(ValueError, match="nothing about them"):
        stream(scorer, x)
    with pytest.raises(ValueError, match=r"attributions\['a'\]: shape \(5, 7\) does not fit 150 rows"):
        stream(scorer, x, {"a": x[:5]})
    with pytest.raises(TypeError, match=r"batches\[0\]: expected a pair"):
        stream(scorer, [x]).totals()
    with pytest.raises(ValueError, match=r"batches\[1\]: attributions\['a'\]: shape \(3, 7\) does not fit 5 rows"):
        stream(scorer, [(x[:5], {"a": x[:5]}), (x[:5], {"a": x[:3]})]).totals()
    with pytest.raises(ValueError, match="the same attributions"):
        stream(scorer, [(x[:5], {"a": x[:5]}), (x[:5], {"b": x[:5]})]).totals()
    with pytest.raises(TypeError, match="numbers of one kind"):
        stream(scorer, [(x[:5], {"a": x[:5]}), (x[:5].double(), {"a": x[:5]})]).totals()
    with pytest.raises(ValueError, match="expected keys among"):
        stream(scorer, [{"rows": x}]).totals()
    with pytest.raises(ValueError, match="got none"):
        stream(scorer, []).totals()
    with pytest.raises(TypeError, match="iterable of batches"):
        stream(scorer, 3)
    with pytest.raises(ValueError, match="until: expected names among pc"):
        stream(scorer, x, given_two, ["pc"], until={"dpc": 0.1})
    with pytest.raises(ValueError, match="above 0"):
        stream(scorer, x, given_two, ["pc"], until=-1.0)
    with pytest.raises(ValueError, match="stratify"):
        stream(scorer, x, given_two, ["pc"], stratify=[0] * ROWS)
    with pytest.raises(ValueError, match="no column 'region'"):
        stream(scorer, x, given_two, ["pc"], by="region").totals()
    with pytest.raises(ValueError, match="one label for each of 150 rows"):
        stream(scorer, x, given_two, ["pc"], by=["a"]).totals()
    with pytest.raises(TypeError, match="name a column"):
        stream(scorer, x.split(50), {"g": Gradient()}, ["pc"], by=["a"] * ROWS).totals()
    with pytest.raises(ValueError, match="until: expected names among pc, got an empty dict"):
        stream(scorer, x, given_two, ["pc"], until={})
    bad = x.clone()
    bad[60, 2] = torch.nan
    with pytest.raises(ValueError, match="in row 12") as found:
        stream(scorer, bad.split(50), {"g": Gradient()}, ["pc"], batch_size=3).totals()
    assert "from row 48 of the stream" in found.value.__notes__[0]


UNLIKE = {
    "rows": (lambda x: [(x[:5], x[:5]), (x[:5, :3], x[:5, :3])], "inputs", "(5, 7)", "(5, 3)"),
    "attributions": (lambda x: [(x[:5], x[:5]), (x[:4], x[:4, :3])], "attributions", "(5, 7)", "(4, 3)"),
    "a dict, then an array": (lambda x: [(x, {"a": x}), (x, x)], "the same attributions", "a dict of 'a'", "(150, 7)"),
    "an array, then a dict": (lambda x: [(x, x), (x, {"a": x})], "the same attributions", "(150, 7)", "a dict of 'a'"),
    "stacks of other heights": (
        lambda x: [(x, torch.stack([x] * 2)), (x, torch.stack([x] * 3))],
        "attributions",
        "(2, 150, 7)",
        "(3, 150, 7)",
    ),
    "one of a dict": (lambda x: [(x, {"a": x}), (x, {"a": x[:, :3]})], "attributions['a']", "(150, 7)", "(150, 3)"),
    "a target for some": (
        lambda x: [{"inputs": x, "attributions": x}, {"inputs": x, "attributions": x, "target": [0] * ROWS}],
        "target",
        "none",
        "a list of 150",
    ),
}


@pytest.mark.parametrize(("batches", "what", "wanted", "found"), UNLIKE.values(), ids=UNLIKE.keys())
def test_batches_that_are_unlike_are_told_in_a_line(scorer, x, batches, what, wanted, found) -> None:
    with pytest.raises(ValueError, match=r"^batches\[1\]: expected ") as refused:
        stream(scorer, batches(x), metrics=["pc"]).totals()
    message = str(refused.value)
    assert f"expected {what} as in batches[0], " in message
    before, after = message.split(", got ")
    assert wanted in before
    assert found in after
    assert "\n" not in message


def test_every_batch_has_its_own_target(x) -> None:
    """Also where each says one class for all of its rows."""
    model = torch.nn.Linear(COLUMNS, 3)
    batches = [
        {"inputs": x[:9], "attributions": x[:9], "target": 2},
        {"inputs": x[9:20], "attributions": x[9:20], "target": 0},
        {"inputs": x[20:25], "attributions": x[20:25], "target": [1, 0, 2, 1, 0]},
    ]
    found = [one["pc"].target.tolist() for one in stream(model, batches, metrics=["pc"])]
    assert found == [[2] * 9, [0] * 11, [1, 0, 2, 1, 0]]


def test_lists_of_numbers_are_rows(x) -> None:
    model = torch.nn.Linear(COLUMNS, 2).double()
    lists = [(part.tolist(), part.tolist()) for part in x.split(50)]
    wanted = evaluate(model, x.double(), x.double(), ["pc"])["pc"].mean()
    assert stream(model, lists, metrics=["pc"]).totals()["pc"].mean().mean == pytest.approx(wanted.mean)


def test_only_totals_are_merged(scorer, x, monkeypatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would answer before the library does
    totals = stream(scorer, [(x[:5], x[:5])], metrics=["pc"]).totals()
    with pytest.raises(TypeError, match=r"merge: expected totals, as those of verax\.stream, got int"):
        totals.merge(3)
    with pytest.raises(TypeError, match="merge: expected the total of a metric, got a list of 1"):
        totals["pc"].merge([totals["pc"]])


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_generator_may_overwrite_each_batch_with_the_next(
    scorer: verax.Scorer, x: torch.Tensor, given_two: dict[str, torch.Tensor], whole: Evaluation, kind: str
) -> None:
    size, names = 20, list(given_two)
    held = torch.empty(size, COLUMNS)
    beside = {name: torch.empty(size, COLUMNS) for name in names}

    def batches() -> Iterator[tuple[Any, dict[str, Any]]]:
        for start in range(0, ROWS, size):
            count = min(size, ROWS - start)
            held[:count] = x[start : start + count]
            for name in names:
                beside[name][:count] = given_two[name][start : start + count]
            arrays = held[:count], {name: beside[name][:count] for name in names}
            yield arrays if kind == "torch" else (arrays[0].numpy(), {name: arrays[1][name].numpy() for name in names})

    found = list(stream(scorer, batches(), metrics=METRICS, **CALL))
    for name in METRICS:
        assert torch.equal(torch.cat([part[name].scores for part in found], dim=1), whole[name].scores)


def test_a_stream_shows_how_far_it_is(scorer):
    x = torch.randn(5, COLUMNS)
    found = stream(scorer, [(x, {"x": x})], metrics=["pc"], target=1)
    assert repr(found) == "Stream: 0 rows evaluated so far; iterate over it, or call totals() to evaluate what is left"
    found.totals()
    assert repr(found).startswith("Stream: all 5 rows evaluated")


@pytest.mark.parametrize("empty", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("place", [0, 1])
def test_an_empty_frame_is_left_out_wherever_it_stands(scorer, empty, place):
    names = [f"c{column}" for column in range(COLUMNS)]
    rows = empty(dict(zip(names, np.random.default_rng(0).normal(size=(COLUMNS, 6)), strict=True)))
    batches = [rows]
    batches.insert(place, empty({name: [] for name in names}))
    methods = {"gradient": Gradient()}
    found = stream(scorer, batches, methods, ["pc"], target=1).totals()
    assert found["pc"].mean() == stream(scorer, [rows], methods, ["pc"], target=1).totals()["pc"].mean()
    assert found.count == 6


@pytest.mark.parametrize("before", [0, 1])
def test_totals_of_a_stream_that_failed_are_refused_each_time(scorer, before):
    x = torch.randn(60, COLUMNS)

    def broken():
        yield from [(x, {"x": x})] * before
        raise OSError("the disk is gone")

    found = stream(scorer, broken(), metrics=["pc"], target=1, **CALL)
    with pytest.raises(OSError, match="the disk is gone"):
        found.totals()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="totals: the stream failed before its end") as refused:
            found.totals()
        assert isinstance(refused.value.__cause__, OSError)
