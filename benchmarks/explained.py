"""What should methods explain: the logit of a class, its log-odds, or its probability, which is what metrics follow?

``python benchmarks/explained.py``

Networks of several outputs on three data sets of scikit-learn, each trained from several seeds. The gradient is judged
by the effect correlation under noise, Integrated Gradients x input by PC and by the effect correlation under removal.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

import common
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from torch import Tensor, nn

import verax
from verax.attribution import Attribution, Gradient, IntegratedGradients
from verax.metrics import Metric
from verax.metrics.choose import COLUMNS

DATA = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}
EXPLAINED: tuple[Literal["logit", "log_odds", "probability"], ...] = ("logit", "log_odds", "probability")
HELD_OUT, SEEDS, EPOCHS = 60, 5, 100
PAIRS: dict[str, tuple[Attribution, dict[str, str | Metric]]] = {
    "gradient": (Gradient(), {"effect correlation (noise)": COLUMNS["effect_correlation"]}),
    "integrated gradients": (
        IntegratedGradients("mean"),
        {"PC": "pc", "effect correlation (removal)": COLUMNS["effect_correlation_baseline"]},
    ),
}


class Score(NamedTuple):
    """The mean score of a method over the held-out rows."""

    data: str
    seed: int
    method: str
    metric: str
    explained: str
    mean: float


def main() -> None:
    options = common.arguments(__doc__)
    torch.set_num_threads(1)
    common.print_header("What methods explain")
    seeds = 1 if options.quick else SEEDS
    scores = [score for name in DATA for seed in range(seeds) for score in of_network(name, seed)]
    common.print_table(("data", "method", "metric", *EXPLAINED), lines(scores))
    common.write_results("explained", options, scores=[score._asdict() for score in scores])


def of_network(name: str, seed: int) -> Iterator[Score]:
    """Every method and metric on one network."""
    train, labels, held_out = rows(name, seed)
    model = trained(train, labels, seed)
    for explained in EXPLAINED:
        problem = verax.Problem(model, held_out, explained=explained, background=train)
        for method, (attribution, metrics) in PAIRS.items():
            found = verax.evaluate(problem, {method: attribution}, metrics)
            for metric, result in found.items():
                yield Score(name, seed, method, metric, explained, result.mean()[method].mean)


def rows(name: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Standardised rows to learn from, their labels, and rows that are explained."""
    x, y = DATA[name](return_X_y=True)
    values = torch.tensor(x, dtype=torch.float32)
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
    train, held_out = order[HELD_OUT:], order[:HELD_OUT]
    mean, std = values[train].mean(0), values[train].std(0)
    values = (values - mean) / torch.where(std > 0, std, torch.ones_like(std))
    return values[train], torch.tensor(y)[train], values[held_out]


def trained(train: Tensor, labels: Tensor, seed: int) -> nn.Module:
    """A network of two hidden layers."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes = (train.shape[1], 64, 64)
        layers = [part for ins, outs in itertools.pairwise(sizes) for part in (nn.Linear(ins, outs), nn.Tanh())]
        model = nn.Sequential(*layers, nn.Linear(sizes[-1], int(labels.max()) + 1))
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-3)
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(train)).split(64):
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(train[batch]), labels[batch]).backward()
                optimiser.step()
    return model.eval()


def lines(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    """A line for each data set, method and metric: the mean over seeds, by what is explained."""
    means = {
        key: fmean(score.mean for score in scores if (score.data, score.method, score.metric, score.explained) == key)
        for key in dict.fromkeys((score.data, score.method, score.metric, score.explained) for score in scores)
    }
    keys = dict.fromkeys(key[:3] for key in means)
    return [(*key, *(f"{means[*key, explained]:.3f}" for explained in EXPLAINED)) for key in keys]


def stored() -> list[Score]:
    """What the last run found, from its file."""
    content = json.loads((common.RESULTS / "explained.json").read_text(encoding="utf-8"))
    return [Score(**score) for score in content["scores"]]


if __name__ == "__main__":
    main()
