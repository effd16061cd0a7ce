"""Do the intervals of Infidelity and effect correlation cover what they say? On small networks of random weights.

Known truth is the score from very many draws. By how sure the model is of an input (the difference of its two logits;
at 8 the probability is within 0.0003 of 0 or 1): how often 95 % intervals of few draws hold the truth, and how large
the standard error is beside the real spread over seeds.
"""

import argparse
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch
from torch import Tensor, nn

import verax
from verax.metrics import Draws, EffectCorrelation, Effects, Infidelity, SampledMetric

METRICS = ("effect_correlation", "infidelity")
SIZES = (20, 80, 640)
FEATURES = 20


@dataclass(frozen=True)
class DeltaError(SampledMetric):
    """The standard error of effect correlation by the delta method, to compare the jackknife with."""

    other: EffectCorrelation

    name: ClassVar[str] = "delta_error"
    higher_is_better: ClassVar[bool] = False
    kind: ClassVar[str] = "local"  # type: ignore[assignment]

    @property
    def draws(self) -> Draws:
        """Those of the correlation."""
        return self.other.draws

    def reduce(self, effects: Effects) -> Tensor:
        """The root of the sum of the squared influences of the draws."""
        u = nn.functional.normalize(effects.predicted.double(), dim=-1, eps=1e-300)
        v = nn.functional.normalize(effects.actual, dim=-1, eps=1e-300)
        correlation = (u * v).sum(-1, keepdim=True)
        influence = u * v - correlation * (u.square() + v.square()) / 2
        return influence.square().sum(-1).sqrt()


class Scaled(nn.Module):
    """A model with its logits times a factor: the larger, the more its probabilities are 0 or 1."""

    def __init__(self, model: nn.Module, factor: float) -> None:
        super().__init__()
        self.model, self.factor = model, factor

    def forward(self, rows: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.model(rows)
        return self.factor * logits


def models() -> dict[str, nn.Module]:
    """Small models of random weights; the last ones are saturated."""
    torch.manual_seed(0)
    found = {
        "linear": nn.Linear(FEATURES, 2),
        "tanh": nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, 2)),
        "relu": nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 2)),
    }
    for model in found.values():
        for weights in model.parameters():
            fan = weights[0].numel() if weights.ndim > 1 else 1
            weights.data = torch.randn_like(weights) * (2 / fan) ** 0.5
    steep = {f"relu, logits x {factor}": Scaled(found["relu"], factor) for factor in (4, 16)}
    return {name: model.double() for name, model in (found | steep).items()}


def certainty(model: nn.Module, x: Tensor) -> list[str]:
    """How far apart the logits of each input are."""
    with torch.no_grad():
        apart = model(x).diff(dim=1).abs()[:, 0].tolist()
    return ["up to 8" if one <= 8 else "8 to 32" if one <= 32 else "above 32" for one in apart]


def attributions(model: nn.Module, x: Tensor, contributions: bool) -> dict[str, Tensor]:
    """From nearly perfect to useless; slopes, or contributions."""
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(leaf).softmax(1)[:, 0].sum(), leaf)
    spread = slope.std(dim=1, keepdim=True)
    largest = nn.functional.one_hot(slope.abs().argmax(1), FEATURES)
    random = torch.randn_like(x)
    maps = {"gradient": slope, "noisy": slope + 0.5 * spread * random, "one": largest * slope, "random": random}
    return {name: one * x for name, one in maps.items()} if contributions else maps


def measured(seeds: int, inputs: int, many: int) -> Iterator[dict[str, Any]]:
    """One row for each model, perturbation, number of draws, metric, attribution and input."""
    for name, model in models().items():
        for perturbation in ("gaussian", "baseline"):
            x = torch.randn(inputs, FEATURES, dtype=torch.float64)
            maps, logits = attributions(model, x, perturbation == "baseline"), certainty(model, x)
            truth = scores(model, x, maps, perturbation, many, seed=-1)
            for samples in SIZES:
                runs = [scores(model, x, maps, perturbation, samples, seed) for seed in range(seeds)]
                where = {"model": name, "perturbation": perturbation, "draws": samples}
                for metric, attribution in itertools.product(METRICS, maps):
                    found = figures([run[metric] for run in runs], [run["delta"] for run in runs], truth[metric])
                    for row, logit in zip(found[attribution].to_dicts(), logits, strict=True):
                        yield where | {"metric": metric, "attribution": attribution, "logits": logit} | row


def scores(model: nn.Module, x: Tensor, maps: Any, perturbation: Any, samples: int, seed: int) -> Any:
    """Both metrics from the same draws."""
    correlation = EffectCorrelation(samples=samples, seed=seed, perturbation=perturbation)
    infidelity = Infidelity(samples=samples, seed=seed, perturbation=perturbation)
    metrics = {"effect_correlation": correlation, "infidelity": infidelity, "delta": DeltaError(correlation)}
    return verax.evaluate(verax.Problem(model, x, target=0), maps, metrics)


def figures(found: list[Any], delta: list[Any], truth: Any) -> dict[str, pl.DataFrame]:
    """Coverage, and errors in units of the spread, over seeds: for each attribution a row for each input."""
    tables = {}
    for name, wanted in truth.value.items():
        held = [(low[name] <= wanted) & (wanted <= high[name]) for low, high in (one.interval() for one in found)]
        spread = torch.stack([one.value[name] for one in found]).std(0)
        columns = {"covered": torch.stack(held).double().mean(0)}
        for way, errors in (
            ("jackknife", [one.standard_error[name] for one in found]),
            ("delta", [one.value[name] for one in delta]),
        ):
            columns[way] = torch.stack(errors).square().mean(0).sqrt() / spread
        tables[name] = pl.DataFrame({column: values.numpy() for column, values in columns.items()})
    return tables


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--inputs", type=int, default=12)
    parser.add_argument("--many", type=int, default=200_000, help="draws of the truth")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = pl.DataFrame(list(measured(options.seeds, options.inputs, options.many)))
    pl.Config.set_tbl_rows(-1).set_tbl_cols(-1).set_tbl_width_chars(200).set_float_precision(2)
    pl.Config.set_tbl_hide_dataframe_shape(True).set_tbl_hide_column_data_types(True)
    by = ["logits", "perturbation", "draws"]
    for metric in METRICS:
        rows = table.filter(metric=metric)
        print(f"\n{metric}: share of 95 % intervals that hold the truth, by attribution")
        print(rows.pivot("attribution", index=by, values="covered", aggregate_function="mean").sort(by))
    print("\neffect_correlation: standard error over spread, lowest tenth and median over inputs and attributions")
    errors = [
        pl.col(way).quantile(share).alias(f"{way}, {share}") for way in ("jackknife", "delta") for share in (0.1, 0.5)
    ]
    print(table.filter(metric=METRICS[0]).group_by("logits", "draws").agg(errors).sort("logits", "draws"))


if __name__ == "__main__":
    main()
