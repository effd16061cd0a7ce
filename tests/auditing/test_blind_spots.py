"""The audit finds by itself what metrics cannot see, and fails those that are broken."""

from dataclasses import dataclass

import polars as pl
import pytest
import torch

from calls import audit
from verax.auditing import cases
from verax.metrics import (
    DirectedPredictionChange,
    EffectCorrelation,
    GuidedMetric,
    Infidelity,
    PredictionChange,
    SampledMetric,
)

BASELINE = ["baseline"]


@dataclass(frozen=True)
class Flipped(GuidedMetric):
    """PC with the wrong sign."""

    name, higher_is_better, kind = "broken_flipped", True, "baseline"
    experiment = PredictionChange().experiment

    def reduce(self, scores):
        return -PredictionChange().reduce(scores)


@dataclass(frozen=True)
class Lottery(GuidedMetric):
    """Numbers by lot."""

    name, higher_is_better, kind = "broken_lottery", True, "baseline"
    experiment = PredictionChange().experiment

    def reduce(self, scores):
        return torch.rand(scores.curves.shape[:2], generator=torch.Generator().manual_seed(7), dtype=torch.float64)


@dataclass(frozen=True)
class Constant(GuidedMetric):
    """The same number for all."""

    name, higher_is_better, kind = "broken_constant", True, "baseline"
    experiment = PredictionChange().experiment

    def reduce(self, scores):
        return torch.zeros(scores.curves.shape[:2], dtype=torch.float64)


@dataclass(frozen=True)
class CaptumInfidelity(SampledMetric):
    """Normalised Infidelity as Captum has it: the fitted scale may be negative."""

    name, higher_is_better, kind = "captum_infidelity", False, "local"
    draws = Infidelity(samples=160).draws

    def reduce(self, effects):
        predicted, actual = effects.predicted.double(), effects.actual
        beta = (predicted * actual).sum(-1, keepdim=True) / predicted.square().sum(-1, keepdim=True)
        return (beta * predicted - actual).square().mean(-1)


@pytest.fixture(scope="module")
def few():
    return {case.name: case for case in cases(inputs=24)}


def shares(found, metric, about):
    rows = found.to_frame().filter((pl.col("metric") == metric) & (pl.col("trial") == f"truth_wins: {about}"))
    assert rows.height
    return rows


@pytest.fixture(scope="module")
def local(few):
    metrics = {
        "dpc": DirectedPredictionChange("magnitude"),
        "dpc signed": DirectedPredictionChange(),
        "dpc morf": DirectedPredictionChange("magnitude", area="morf"),
        "captum": CaptumInfidelity(),
        "infidelity": Infidelity(samples=160),
        "effect correlation": EffectCorrelation(samples=160),
        "pc": PredictionChange(),
    }
    chosen = [few[name] for name in ("linear", "additive", "piecewise linear")]
    return audit(metrics=metrics, cases=chosen, replacements=BASELINE, trials=["truth_wins"])


def test_dpc_cannot_tell_the_truth_from_its_negated_inverse(local):
    rows = shares(local, "dpc", "-1/a")
    assert rows["value"].to_list() == [0.0] * rows.height  # all tied
    assert not rows["passed"].any()
    assert "-1/a" in local.blind_spots["dpc"]
    assert any("dpc" in sentence and "-1/a" in sentence for sentence in local.sentences)
    assert shares(local, "dpc morf", "-1/a")["passed"].all()


def test_an_unclamped_scale_cannot_tell_the_truth_from_its_negation(local):
    assert local.blind_spots["captum"] == ["-a"]
    assert not shares(local, "captum", "-a")["passed"].any()
    assert shares(local, "infidelity", "-a")["passed"].all()
    assert shares(local, "effect correlation", "-a")["passed"].all()


def test_signed_orders_are_blind_to_a_constant(local):
    for name in ("pc", "dpc signed"):
        assert "a constant added" in local.blind_spots[name]
        assert shares(local, name, "a constant added")["value"].max() == 0.0
    assert shares(local, "effect correlation", "a constant added")["passed"].all()


def test_dpc_is_misled_where_smaller_signs_are_reversed(local):
    assert "half-reversed signs" in local.misled["dpc"]
    assert "dpc morf" not in local.misled or "half-reversed signs" not in local.misled["dpc morf"]


@pytest.mark.parametrize("broken", [Flipped(), Lottery(), Constant()], ids=lambda metric: metric.name)
def test_broken_metrics_fail(few, broken):
    metrics = {"sound": PredictionChange(), "broken": broken}
    trials = ["truth_wins", "falls_with_damage", "peaks_at_truth", "randomised_model"]
    found = audit(metrics=metrics, cases=[few["linear"]], replacements=BASELINE, trials=trials)
    frame = found.to_frame().filter(pl.col("passed").is_not_null())
    easy = pl.col("trial").str.contains("random|permuted|: -a|falls|smallest|peaks|all layers")
    passed = frame.filter(easy).group_by("metric").agg(pl.col("passed").mean())
    by_metric = dict(passed.iter_rows())
    assert by_metric["sound"] == 1.0
    assert by_metric["broken"] <= 0.1
    worst = frame.filter((pl.col("metric") == "broken") & pl.col("trial").str.starts_with("truth_wins:"))
    assert worst["passed"].sum() <= (2 if broken.name == "broken_flipped" else 1)
