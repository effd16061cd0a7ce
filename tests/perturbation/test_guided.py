"""PC and DPC against the slow reference, on both ways of removing features, and what they cost."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import calls
import reference
import verax
from verax.evaluation.result import Evaluation
from verax.metrics import DirectedPredictionChange, PredictionChange
from verax.perturbation import guided

READINGS = ("magnitude", "signed", "literal")
FORMS = ("cumulative", "increments")
Curves = tuple[int, int, reference.Curve, reference.Curve]  # attribution, input, MoRF, LeRF
check_many = settings(max_examples=30)


class Classifier(nn.Module):
    def __init__(self, weights: reference.TwoLayers) -> None:
        super().__init__()
        self.inner = nn.Parameter(torch.from_numpy(weights.inner))
        self.outer = nn.Parameter(torch.from_numpy(weights.outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x.flatten(1) @ self.inner.T) @ self.outer.T


@dataclass
class Case:
    """A random problem. ``rounded`` numbers are multiples of 1/4: many ties, and sums without rounding error."""

    weights: reference.TwoLayers
    inputs: Any
    attributions: Any
    baselines: Any
    features: Any
    target: Any

    @classmethod
    def random(
        cls,
        seed: int,
        elements: int,
        *,
        baseline: str = "zero",
        groups: str = "none",
        rounded: bool = False,
        inputs: int = 3,
        attributions: int = 2,
    ) -> "Case":
        rng = np.random.default_rng(seed)

        def normal(*shape: int) -> Any:
            drawn = rng.normal(size=shape)
            return np.round(drawn * 4) / 4 + 0.0 if rounded else drawn  # + 0.0 makes -0.0 a 0.0

        x = normal(inputs, elements)
        baselines = {
            "zero": 0.0,
            "number": -0.5,
            "row": normal(elements),
            "each": normal(inputs, elements),
            "touching": np.where(rng.random(x.shape) < 0.5, x, normal(inputs, elements)),
        }[baseline]
        most = max(1, (elements + 1) // 2)
        features = {
            "none": "auto",
            "shared": rng.integers(0, most, elements) * 3 - 4,
            "each": rng.integers(0, most, (inputs, elements)) * 3 - 4,
        }[groups]
        if groups != "none":
            features[..., 0] = abs(features[..., 0])  # something must be left to remove
        return cls(
            weights=reference.TwoLayers.random(rng, elements),
            inputs=x,
            attributions=normal(attributions, inputs, elements),
            baselines=baselines,
            features=features,
            target=rng.integers(0, 3, inputs),
        )

    def evaluate(self, metrics: Any) -> Evaluation:
        return calls.evaluate(
            Classifier(self.weights),
            self.inputs,
            self.attributions,
            metrics,
            target=self.target,
            baselines=self.baselines,
            features=self.features,
        )

    @property
    def groups(self) -> Any:
        """One map per input, whatever the form of the ``features`` argument."""
        own = np.arange(self.inputs.shape[1]) if isinstance(self.features, str) else self.features
        return np.broadcast_to(own, self.inputs.shape)

    def curves(self, order: str, steps: int) -> Iterator[Curves]:
        """MoRF and LeRF of every attribution and input by the reference."""
        baselines = np.broadcast_to(self.baselines, self.inputs.shape)
        for k, attribution in enumerate(self.attributions):
            for i, x in enumerate(self.inputs):
                score = self.weights.score(int(self.target[i]))
                taken = reference.steps_taken(steps, len({one for one in self.groups[i].tolist() if one >= 0}))
                yield k, i, *reference.guided(score, x, baselines[i], attribution[i], self.groups[i], order, taken)

    def distinct_rows(self, orders: set[str], steps: int) -> int:
        """Count the different rows of each input by brute force, the unperturbed and the last one among them."""
        rows: set[tuple[int, bytes]] = set()
        for order in orders:
            for _, i, morf, lerf in self.curves(order, steps):
                rows |= {(i, row.tobytes()) for curve in (morf, lerf) for row in curve.rows}
        return len(rows)


def all_metrics(steps: int) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for form in FORMS:
        metrics[f"pc signed {form}"] = PredictionChange("signed", steps, form)
        metrics[f"pc magnitude {form}"] = PredictionChange("magnitude", steps, form)
        for reading in READINGS:
            metrics[f"dpc {reading} {form}"] = DirectedPredictionChange(reading, steps, form)
    return metrics


def assert_equals_reference(case: Case, steps: int) -> None:
    metrics = all_metrics(steps)
    found = case.evaluate(metrics)
    for order in ("signed", "magnitude"):
        curves = list(case.curves(order, steps))
        for name, metric in metrics.items():
            if metric.experiment.order == order:
                reading = metric.order if metric.name == "dpc" else "pc"
                assert_result_equals(found[name], curves, reading, metric.curve)


def assert_result_equals(result: Any, curves: list[Curves], reading: str, form: str) -> None:
    wanted = {name: np.empty(result.morf.shape) for name in ("morf", "lerf", "directed_morf", "directed_lerf")}
    wanted["value"] = np.empty(result.value.shape)
    for k, i, morf, lerf in curves:
        directed = {name: reference.metric_curve(one, reading, form) for name, one in (("lerf", lerf), ("morf", morf))}
        wanted["value"][k, i] = reference.weighted_abpc(directed["lerf"], directed["morf"])
        for name, curve in (("morf", morf), ("lerf", lerf)):
            padding = result.morf.shape[-1] - len(curve.scores)  # inputs with fewer features have shorter curves
            wanted[name][k, i] = curve.scores + padding * curve.scores[-1:]
            rest = [0.0] if form == "increments" else directed[name][-1:]
            wanted[f"directed_{name}"][k, i] = [*directed[name], *(padding * rest)]
    for name, values in wanted.items():
        np.testing.assert_allclose(getattr(result, name), values, rtol=0, atol=1e-12, err_msg=f"{reading} {name}")


@check_many
@given(
    seed=st.integers(0, 2**32 - 1),
    elements=st.integers(1, 12),
    steps=st.integers(1, 25),
    baseline=st.sampled_from(("zero", "number", "row", "each", "touching")),
    groups=st.sampled_from(("none", "shared", "each")),
    rounded=st.booleans(),
)
def test_few_features_equal_the_reference(
    seed: int, elements: int, steps: int, baseline: str, groups: str, rounded: bool
) -> None:
    case = Case.random(seed, elements, baseline=baseline, groups=groups, rounded=rounded)
    assert_equals_reference(case, steps)


@settings(check_many, max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1),
    elements=st.sampled_from((70, 130)),
    steps=st.integers(1, 25),
    baseline=st.sampled_from(("zero", "each", "touching")),
    groups=st.sampled_from(("none", "shared", "each")),
    rounded=st.booleans(),
)
def test_many_features_equal_the_reference(
    seed: int, elements: int, steps: int, baseline: str, groups: str, rounded: bool
) -> None:
    case = Case.random(seed, elements, baseline=baseline, groups=groups, rounded=rounded, inputs=2)
    assert_equals_reference(case, steps)


@pytest.mark.parametrize("elements", [31, 32, 63, 64, 65])
@pytest.mark.parametrize("baseline", ["zero", "touching"])
def test_around_the_sign_bit(elements: int, baseline: str) -> None:
    assert_equals_reference(Case.random(elements, elements, baseline=baseline), steps=64)


def test_the_64th_feature_alone_is_removed() -> None:
    """Its bit is the sign of the integer that stands for the removed set."""
    x = torch.ones(1, 64, dtype=torch.float64)
    a = torch.zeros(1, 64, dtype=torch.float64)
    a[0, 63] = 1
    scorer = verax.Scorer(lambda rows: rows[:, :1] * 2 + rows[:, 63:] * 3, returns="logits")
    result = calls.prediction_change(scorer, x, a, target=1, steps=64, output="logit")
    assert result.morf[0, :3].tolist() == [5, 2, 0]
    assert result.lerf[0, -3:].tolist() == [5, 3, 0]


@pytest.mark.parametrize("groups", ["none", "shared", "each"])
@pytest.mark.parametrize("baseline", ["zero", "touching"])
@pytest.mark.parametrize("steps", [1, 4, 20])
@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("most", [64, 0], ids=["bits", "digests"])
def test_every_distinct_row_is_scored_once(
    monkeypatch: pytest.MonkeyPatch, groups: str, baseline: str, steps: int, rounded: bool, most: int
) -> None:
    monkeypatch.setattr(guided, "MOST_FEATURES", most)
    case = Case.random(7, 9, baseline=baseline, groups=groups, rounded=rounded, attributions=4)
    signed = case.evaluate({"pc": PredictionChange(steps=steps)})
    assert signed.rows == case.distinct_rows({"signed"}, steps)
    assert case.evaluate(all_metrics(steps)).rows == case.distinct_rows({"signed", "magnitude"}, steps)


def test_an_input_equal_to_its_baseline_costs_one_row() -> None:
    case = Case.random(1, 9)
    case.baselines = case.inputs
    found = case.evaluate(all_metrics(20))
    assert found.rows == len(case.inputs)
    assert all((result.value == 0).all() for result in found.values())


@pytest.mark.parametrize("elements", [20, 70])
def test_readings_that_share_an_experiment_cost_it_once(elements: int) -> None:
    case = Case.random(3, elements, inputs=5, attributions=1)
    signed = [PredictionChange(), DirectedPredictionChange("signed"), DirectedPredictionChange("literal")]
    assert case.evaluate(signed).rows == 5 * 40
    assert case.evaluate(signed[:1]).rows == 5 * 40
    everything = case.evaluate([*signed, DirectedPredictionChange("magnitude")]).rows
    assert everything == 5 * 78 if elements == 70 else everything <= 5 * 78


@pytest.mark.parametrize("elements", [20, 70])
def test_attributions_with_the_same_order_cost_as_one(elements: int) -> None:
    case = Case.random(4, elements, attributions=1)
    one = case.evaluate(["pc"]).rows
    case.attributions = np.concatenate([case.attributions, case.attributions * 2, np.exp(case.attributions)])
    assert case.evaluate(["pc"]).rows == one


@pytest.mark.parametrize("groups", ["none", "shared", "each"])
@pytest.mark.parametrize("baseline", ["zero", "touching"])
@pytest.mark.parametrize("steps", [1, 5, 20])
def test_ranks_and_bit_masks_agree(monkeypatch: pytest.MonkeyPatch, groups: str, baseline: str, steps: int) -> None:
    case = Case.random(11, 12, baseline=baseline, groups=groups, rounded=True, inputs=5, attributions=3)
    by_bits = case.evaluate(all_metrics(steps))
    monkeypatch.setattr(guided, "MOST_FEATURES", 0)
    assert_same(case.evaluate(all_metrics(steps)), by_bits)


@pytest.mark.parametrize("budget", [1, 5_000, 20_000])
@pytest.mark.parametrize("groups", ["none", "shared", "each"])
@pytest.mark.parametrize("most", [64, 0], ids=["bits", "ranks"])
def test_blocks_of_any_size_agree(monkeypatch: pytest.MonkeyPatch, budget: int, groups: str, most: int) -> None:
    case = Case.random(12, 12, baseline="each", groups=groups, inputs=7, attributions=5)
    monkeypatch.setattr(guided, "MOST_FEATURES", most)
    whole = case.evaluate(all_metrics(6))
    monkeypatch.setattr(guided, "block_bytes", lambda device: budget)
    parts = case.evaluate(all_metrics(6))
    assert_same(parts, whole)
    assert parts.rows == whole.rows


def assert_same(found: Evaluation, wanted: Evaluation) -> None:
    for name, result in found.items():
        for field in ("value", "morf", "lerf", "directed_morf", "directed_lerf"):
            np.testing.assert_allclose(getattr(result, field), getattr(wanted[name], field), atol=1e-12, err_msg=name)


def test_equal_attributions_go_in_the_order_of_the_features() -> None:
    case = Case.random(5, 12, attributions=1)
    falling = np.broadcast_to(np.arange(12.0, 0, -1), case.attributions.shape)
    case.attributions = np.ones_like(case.attributions)
    constant = case.evaluate(["pc"])["pc"]
    case.attributions = falling
    ranked = case.evaluate(["pc"])["pc"]
    np.testing.assert_array_equal(constant.morf, ranked.morf)
    np.testing.assert_array_equal(constant.lerf, ranked.lerf)


def test_negative_zero_ranks_with_zero() -> None:
    case = Case.random(6, 12, rounded=True)
    plain = case.evaluate(["pc", "dpc"])
    case.attributions = np.where(case.attributions == 0, -0.0, case.attributions)
    assert_same(case.evaluate(["pc", "dpc"]), plain)


def test_lerf_is_the_reverse_and_not_another_sort() -> None:
    """With ties, ranking by minus the attributions would keep tied features in their order instead of reversing it."""
    x = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64)
    scorer = verax.Scorer(lambda rows: rows.sum(1), returns="logits")
    result = calls.prediction_change(scorer, x, torch.zeros_like(x), target=1, output="logit")
    assert result.morf.tolist() == [[7, 6, 4, 0]]
    assert result.lerf.tolist() == [[7, 3, 1, 0]]


def test_both_curves_remove_as_many_features_at_each_point() -> None:
    """Seven features in three steps: 2, 4 and 7 are gone, counted from either end."""
    x = torch.tensor([[1.0, 2, 4, 8, 16, 32, 64]], dtype=torch.float64)
    scorer = verax.Scorer(lambda rows: rows.sum(1), returns="logits")
    result = calls.prediction_change(scorer, x, -x, target=1, steps=3, output="logit")
    assert result.steps == 3
    assert result.morf.tolist() == [[127, 127 - 3, 127 - 15, 0]]
    assert result.lerf.tolist() == [[127, 127 - 96, 127 - 120, 0]]


def test_a_step_is_signed_by_the_sums_over_its_features() -> None:
    """Two features a step: attributions 3 and -1 sum to 2, x - b there is 1 and -5, which sums to -4."""
    x = torch.tensor([[1.0, -5.0, 2.0, 0.5]], dtype=torch.float64)
    a = torch.tensor([[3.0, -1.0, -0.5, 0.25]], dtype=torch.float64)
    scorer = verax.Scorer(lambda rows: rows.sum(1), returns="logits")
    options = {"target": 1, "steps": 2, "order": "magnitude", "output": "logit"}
    result = calls.directed_prediction_change(scorer, x, a, **options)
    # clean score -1.5; MoRF removes {0, 1} (score 2.5, change +4, signs + and -), then {2, 3} (change -2.5, - and +)
    assert result.morf.tolist() == [[-1.5, 2.5, 0]]
    assert result.directed_morf.tolist() == [[-1.5, -5.5, -3.0]]
    # LeRF the other way round: {3, 2} (change -2.5, signs - and +), then {1, 0} (change +4, + and -)
    assert result.lerf.tolist() == [[-1.5, -4.0, 0]]
    assert result.directed_lerf.tolist() == [[-1.5, 1.0, -3.0]]


def test_shorter_curves_of_a_group_map_are_padded_and_valued_as_if_alone() -> None:
    x = torch.tensor([[1.0, 2, 4, 8], [1, 2, 4, 8]], dtype=torch.float64)
    groups = torch.tensor([[0, 1, 2, 3], [5, 5, 9, 9]])
    scorer = verax.Scorer(lambda rows: rows.sum(1), returns="logits")
    result = calls.prediction_change(scorer, x, x, target=1, features=groups, output="logit")
    assert result.morf.tolist() == [[15, 7, 3, 1, 0], [15, 3, 0, 0, 0]]
    assert result.lerf.tolist() == [[15, 14, 12, 8, 0], [15, 12, 0, 0, 0]]
    for measure in (calls.prediction_change, calls.directed_prediction_change):
        together = measure(scorer, x, x, target=1, features=groups, output="logit")
        alone = measure(scorer, x[1:], x[1:], target=1, features=groups[1:], output="logit")
        for name in ("value", "abpc", "aupc_morf", "aupc_lerf"):
            assert getattr(together, name)[1] == getattr(alone, name)[0]


def test_the_precision_of_other_attributions_does_not_matter() -> None:
    """The channels of the first pixel sum to 1 in double precision, to 0 in single precision; the second has 0.5."""
    a = torch.zeros(1, 3, 1, 2)
    a[0, :, 0, 0] = torch.tensor([1e8, 1, -1e8])
    a[0, 0, 0, 1] = 0.5
    x = torch.tensor([1.0, 2.0]).expand(1, 3, 1, 2)
    scorer = verax.Scorer(lambda rows: rows.flatten(1).sum(1), returns="logits")
    alone = calls.prediction_change(scorer, x, {"a": a}, target=1, output="logit")
    shared = calls.prediction_change(scorer, x, {"a": a, "b": a.double()}, target=1, output="logit")
    assert alone.morf["a"].tolist() == shared.morf["a"].tolist() == [[9, 6, 0]]
